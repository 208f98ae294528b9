/* The floor: what a prefix cache cannot do without, as plain C behind the thinnest Python call.
 *
 * No splitting, errors, namespaces, order, digests or reference counts: each function does the reads and writes that
 * its operation needs on any design (tokens as u32, one slot number per page, one hash probe and one compare per node),
 * so that `isoradix / floor` says how much all the rest costs. Callers pass array('q') or int64 arrays, and are trusted.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
    uint32_t parent, length, locks, touched, previous, next;
    uint64_t start, hash;
} Node;

typedef struct {
    const int64_t *items;
    size_t length;
    Py_buffer view;
} Ints;

#define CALL(name) static PyObject *name(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
#define NUMBER(i) ((size_t)PyLong_AsSize_t(args[i]))

static int borrow(PyObject *from, Ints *to, int flags) {
    if (PyObject_GetBuffer(from, &to->view, flags)) return -1;
    to->items = to->view.buf;
    to->length = (size_t)to->view.len / sizeof(int64_t);
    return 0;
}

static void *zeroed(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory) Py_FatalError("out of memory");
    return memory;
}

static uint64_t mix(uint64_t a, uint64_t b) {
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t random_state = 88172645463325252ull;
static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

/* ---- Bulk: the loops that the compiler vectorizes. */

static size_t common(const int64_t *restrict key, const uint32_t *restrict stored, size_t length) {
    size_t at = 0;
    for (; at + 64 <= length; at += 64) {
        uint64_t differ = 0;
        for (size_t i = 0; i < 64; i++) differ |= (uint64_t)key[at + i] ^ stored[at + i];
        if (differ) break;
    }
    while (at < length && (uint64_t)key[at] == stored[at]) at++;
    return at;
}

static void narrow(uint32_t *restrict to, const int64_t *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) to[i] = (uint32_t)from[i];
}

static void spell(int64_t *restrict to, uint32_t first_slot, size_t page_size) {
    for (size_t i = 0; i < page_size; i++) to[i] = (int64_t)first_slot + (int64_t)i;
}

/* ---- A path of nodes, scattered over an arena as in a big tree, found by (parent, first tokens of the page). */

static Node *nodes;
static uint32_t *tokens, *table, leaf;
static uint64_t mask;

static uint64_t edge(uint32_t parent, const int64_t *page, size_t page_size) {
    uint64_t hash = parent * 0x9E3779B97F4A7C15ull + 1;
    for (size_t i = 0; i < page_size && i < 8; i++) hash = mix(hash ^ (uint64_t)page[i], 0xe7037ed1a0b428dbull);
    return hash;
}

CALL(build_path) { /* (key, tokens a node, page size, nodes in the arena) */
    Ints key;
    if (borrow(args[0], &key, PyBUF_SIMPLE)) return NULL;
    size_t run = NUMBER(1), page_size = NUMBER(2), arena = NUMBER(3), buckets = 1;
    while (buckets < 2 * arena) buckets <<= 1;
    mask = buckets - 1;
    free(nodes), free(tokens), free(table);
    nodes = zeroed(arena, sizeof *nodes), table = zeroed(buckets, sizeof *table);
    tokens = zeroed(key.length, sizeof *tokens);
    narrow(tokens, key.items, key.length);
    leaf = 0;
    for (size_t start = 0; start < key.length; start += run) {
        uint32_t id;
        do id = 1 + next_random() % (arena - 1);
        while (nodes[id].length);
        size_t length = key.length - start < run ? key.length - start : run;
        nodes[id] = (Node){.parent = leaf, .length = (uint32_t)length, .start = start,
                           .hash = edge(leaf, key.items + start, page_size)};
        uint64_t bucket = nodes[id].hash & mask;
        while (table[bucket]) bucket = (bucket + 1) & mask;
        table[bucket] = leaf = id;
    }
    PyBuffer_Release(&key.view);
    Py_RETURN_NONE;
}

static uint32_t child(uint32_t parent, uint64_t hash) {
    uint64_t bucket = hash & mask;
    for (uint32_t id; (id = table[bucket]); bucket = (bucket + 1) & mask)
        if (nodes[id].hash == hash && nodes[id].parent == parent) return id;
    return 0;
}

CALL(match) { /* (key, page size) -> tokens matched */
    Ints key;
    if (borrow(args[0], &key, PyBUF_SIMPLE)) return NULL;
    size_t page_size = NUMBER(1), at = 0;
    uint32_t at_node = 0, id;
    while (at + page_size <= key.length && (id = child(at_node, edge(at_node, key.items + at, page_size)))) {
        size_t left = key.length - at, length = left < nodes[id].length ? left : nodes[id].length;
        size_t same = common(key.items + at, tokens + nodes[id].start, length);
        nodes[id].touched++;
        at += same, at_node = id;
        if (same < nodes[id].length) break;
    }
    PyBuffer_Release(&key.view);
    return PyLong_FromSize_t(at);
}

CALL(lock) { /* (+1 or -1) -> tokens that changed side */
    long delta = PyLong_AsLong(args[0]);
    size_t changed = 0;
    for (uint32_t id = leaf; id; id = nodes[id].parent) {
        uint32_t before = nodes[id].locks;
        nodes[id].locks = (uint32_t)(before + delta);
        if (!before != !nodes[id].locks) changed += nodes[id].length;
    }
    return PyLong_FromSize_t(changed);
}

/* ---- A store of tokens and pages, written as a ring: what a bounded cache reads and writes, request by request. */

static uint32_t *store_tokens, *store_pages;
static size_t store_size, store_page, store_head;

CALL(build_store) { /* (tokens, page size) */
    store_size = NUMBER(0), store_page = NUMBER(1), store_head = 0;
    free(store_tokens), free(store_pages);
    store_tokens = zeroed(store_size, sizeof *store_tokens);
    store_pages = zeroed(store_size / store_page + 1, sizeof *store_pages);
    for (size_t i = 0; i < store_size; i++) store_tokens[i] = store_pages[i / store_page] = (uint32_t)i;
    Py_RETURN_NONE;
}

static size_t somewhere(size_t count) { return next_random() % (store_size - count); }

CALL(compare) { /* (key, n): reads n stored tokens and n of the key */
    Ints key;
    if (borrow(args[0], &key, PyBUF_SIMPLE)) return NULL;
    size_t count = NUMBER(1);
    const uint32_t *stored = store_tokens + somewhere(count);
    uint64_t differ = 0;
    for (size_t i = 0; i < count; i++) differ |= (uint64_t)key.items[i] ^ stored[i];
    PyBuffer_Release(&key.view);
    return PyLong_FromUnsignedLongLong(differ);
}

CALL(read_slots) { /* (out, n): n slots as int64, for the indices of a match or the victims of an eviction */
    Ints out;
    if (borrow(args[0], &out, PyBUF_WRITABLE)) return NULL;
    size_t count = NUMBER(1);
    const uint32_t *pages = store_pages + somewhere(count) / store_page;
    for (size_t at = 0; at < count; at += store_page) spell((int64_t *)out.view.buf + at, *pages++, store_page);
    PyBuffer_Release(&out.view);
    Py_RETURN_NONE;
}

CALL(insert) { /* (key, slots, from): stores tokens and pages from there on */
    Ints key, slots;
    if (borrow(args[0], &key, PyBUF_SIMPLE) || borrow(args[1], &slots, PyBUF_SIMPLE)) return NULL;
    size_t from = NUMBER(2), count = key.length - from;
    if (store_head + count > store_size) store_head = 0;
    narrow(store_tokens + store_head, key.items + from, count);
    uint32_t *pages = store_pages + store_head / store_page;
    for (size_t at = from; at < key.length; at += store_page) *pages++ = (uint32_t)slots.items[at];
    store_head += count;
    PyBuffer_Release(&key.view);
    PyBuffer_Release(&slots.view);
    return PyLong_FromSize_t(from);
}

/* ---- Leaves in LRU order, at random places of their arena. */

static Node *leaves;
static uint32_t *leaf_table, *leaf_page, oldest;
static uint64_t leaf_mask;
static size_t leaf_tokens;

static uint64_t leaf_hash(uint32_t id) { return mix(id * 0x9E3779B97F4A7C15ull, 0xe7037ed1a0b428dbull); }

CALL(build_leaves) { /* (leaves, tokens a leaf: one page) */
    size_t count = NUMBER(0), buckets = 1;
    leaf_tokens = NUMBER(1);
    while (buckets < 2 * count) buckets <<= 1;
    leaf_mask = buckets - 1;
    free(leaves), free(leaf_table), free(leaf_page);
    leaves = zeroed(count + 1, sizeof *leaves), leaf_table = zeroed(buckets, sizeof *leaf_table);
    leaf_page = zeroed(count + 1, sizeof *leaf_page);
    uint32_t *order = zeroed(count + 1, sizeof *order);
    for (uint32_t i = 1; i <= count; i++) order[i - 1] = i;
    for (size_t i = count; i > 1; i--) {
        size_t j = next_random() % i;
        uint32_t swapped = order[i - 1];
        order[i - 1] = order[j], order[j] = swapped;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t id = order[i];
        leaves[id] = (Node){.length = (uint32_t)leaf_tokens, .previous = i ? order[i - 1] : 0,
                            .next = i + 1 < count ? order[i + 1] : 0, .hash = leaf_hash(id)};
        uint64_t bucket = leaves[id].hash & leaf_mask;
        while (leaf_table[bucket]) bucket = (bucket + 1) & leaf_mask;
        leaf_table[bucket] = id;
        leaf_page[id] = (uint32_t)(i * leaf_tokens);
    }
    oldest = order[0];
    free(order);
    Py_RETURN_NONE;
}

CALL(evict) { /* (tokens, out) -> tokens dropped */
    Ints out;
    if (borrow(args[1], &out, PyBUF_WRITABLE)) return NULL;
    int64_t *to = out.view.buf;
    size_t wanted = NUMBER(0), done = 0;
    while (done < wanted && oldest) {
        uint32_t id = oldest;
        oldest = leaves[id].next;
        leaves[oldest].previous = 0;
        uint64_t bucket = leaves[id].hash & leaf_mask;
        while (leaf_table[bucket] != id) bucket = (bucket + 1) & leaf_mask;
        leaf_table[bucket] = UINT32_MAX;
        spell(to + done, leaf_page[id], leaf_tokens);
        done += leaf_tokens;
    }
    PyBuffer_Release(&out.view);
    return PyLong_FromSize_t(done);
}

CALL(nothing) { Py_RETURN_NONE; }

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}
static PyMethodDef methods[] = {METHOD(build_path), METHOD(match), METHOD(lock), METHOD(build_store), METHOD(compare),
                                METHOD(read_slots), METHOD(insert), METHOD(build_leaves), METHOD(evict),
                                METHOD(nothing), {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "floor", .m_size = -1, .m_methods = methods};
PyMODINIT_FUNC PyInit_floor(void) { return PyModule_Create(&definition); }
