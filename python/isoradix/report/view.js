// The trees of two ranks, step by step. All data is in the element #journals; nothing is fetched.
(() => {
"use strict";
const data = JSON.parse(document.getElementById("journals").textContent);
const view = document.getElementById("view");
const at = (id) => document.getElementById(id);
const KEYFRAME = 32, NEXT = 9, NARROWEST = 0.7, DEVICE = 1, HOST = 2;
// fields of a node, as the page's data has them
const PARENT = 1, DEPTH = 2, LENGTH = 3, TIERS = 4, LOCKS = 5, PINS = 6, HOST_LOCKS = 7, USED = 8, HITS = 9;

// one class of equal ranks: its states, made whole when they are asked for
class Timeline {
  constructor(given) {
    Object.assign(this, given);
    this.keyframes = new Map([[-1, new Map()]]);
    this.now = new Map();
    this.index = -1;
  }
  // the index of the last state at or before a step
  find(step) {
    let low = 0, high = this.states.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.states[middle].step <= step) low = middle + 1; else high = middle;
    }
    return low - 1;
  }
  nodes(index) {
    if (index < this.index) {
      let frame = Math.floor((index + 1) / KEYFRAME) * KEYFRAME - 1;
      while (!this.keyframes.has(frame)) frame -= KEYFRAME;
      this.now = new Map(this.keyframes.get(frame));
      this.index = frame;
    }
    while (this.index < index) {
      const state = this.states[++this.index];
      for (const node of state.gone) this.now.delete(node);
      for (const node of state.set) this.now.set(node[0], node);
      if ((this.index + 1) % KEYFRAME === 0 && !this.keyframes.has(this.index)) this.keyframes.set(this.index, new Map(this.now));
    }
    return this.now;
  }
  content(node) { return this.about[`${node[0]}-${node[LENGTH]}`] || [0, []]; }
}

const classes = data.classes.map((given) => new Timeline(given));
const classOf = new Map(classes.flatMap((one) => one.ranks.map((rank) => [rank, one])));
const ranks = [...classOf.keys()].sort((a, b) => a - b);
const steps = [...new Set(classes.flatMap((one) => one.states.map((state) => state.step)))].sort((a, b) => a - b);
const parting = data.parting;
const culprits = parting ? parting.culprits : [];
let position = 0, pinned = null, pointed = null, zoomed = null, timer = null;

// colours follow the theme
const colour = {};
function readColours() {
  const style = getComputedStyle(view);
  for (const name of ["paper", "card", "ink", "soft", "rule", "grid", "device", "both", "host", "parted"])
    colour[name] = style.getPropertyValue(`--${name}`).trim();
}
const tierColour = (tiers) => (tiers === DEVICE ? colour.device : tiers === HOST ? colour.host : colour.both);

function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1, { width, height } = canvas.getBoundingClientRect();
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const draw = canvas.getContext("2d");
  draw.setTransform(ratio, 0, 0, ratio, 0, 0);
  draw.clearRect(0, 0, width, height);
  return { draw, width, height };
}

// places: a box for each node, as wide as its subtree is heavy; children in the order in which they came
function places(nodes, width, height, deepest) {
  const children = new Map(), weight = new Map();
  const ordered = [...nodes.values()].sort((a, b) => b[DEPTH] - a[DEPTH] || a[0] - b[0]);
  for (const node of ordered) {
    const own = (weight.get(node[0]) || 0) + node[LENGTH];
    weight.set(node[0], own);
    weight.set(node[PARENT], (weight.get(node[PARENT]) || 0) + own);
    if (!children.has(node[PARENT])) children.set(node[PARENT], []);
    children.get(node[PARENT]).push(node);
  }
  const down = (depth) => 2 + Math.sqrt(depth / Math.max(deepest, 1)) * (height - 4);
  const boxes = [], pending = [];
  const box = (node, x, wide) => boxes.push({ node, x, width: wide, top: down(node[DEPTH] - node[LENGTH]), bottom: down(node[DEPTH]) });
  const root = nodes.get(zoomed);
  pending.push([root ? root[0] : 0, 0, width]);
  for (let node = root; node; node = nodes.get(node[PARENT])) box(node, 0, width);
  while (pending.length) {
    const [parent, left, wide] = pending.pop();
    const below = (children.get(parent) || []).sort((a, b) => a[0] - b[0]);
    const total = below.reduce((sum, node) => sum + weight.get(node[0]), 0);
    let x = left;
    for (const node of below) {
      const share = (wide * weight.get(node[0])) / total;
      box(node, x, share);
      if (share >= NARROWEST) pending.push([node[0], x, share]);
      x += share;
    }
  }
  return { boxes, children };
}

// nodes on the device that nothing holds and nothing on the device lies below, the oldest first
function evictable(nodes, children) {
  const onDevice = (node) => node[TIERS] & DEVICE;
  return [...nodes.values()]
    .filter((node) => onDevice(node) && !node[LOCKS] && !node[PINS] && !(children.get(node[0]) || []).some(onDevice))
    .sort((a, b) => a[USED] - b[USED]);
}

const unlike = (one, other, a, b) =>
  !other || [PARENT, DEPTH, LENGTH, TIERS, LOCKS, PINS, HOST_LOCKS, USED, HITS].some((field) => one[field] !== other[field])
  || a.content(one)[0] !== b.content(other)[0];

class Pane {
  constructor(element, rank) {
    this.element = element;
    this.tree = element.querySelector(".tree");
    this.order = element.querySelector(".order");
    this.select = element.querySelector("select");
    this.digest = element.querySelector(".digest");
    for (const one of ranks) {
      const name = culprits.includes(one) ? `rank ${one}, at fault` : `rank ${one}`;
      this.select.add(new Option(name, one, false, one === rank));
    }
    this.rank = rank;
    this.select.addEventListener("change", () => { this.rank = Number(this.select.value); show(); });
    this.tree.addEventListener("mousemove", (event) => point(this.hit(event)));
    this.tree.addEventListener("mouseleave", () => point(null));
    this.tree.addEventListener("click", (event) => { pinned = this.hit(event); paint(); });
    this.tree.addEventListener("dblclick", (event) => zoom(this.hit(event)));
  }
  get timeline() { return classOf.get(this.rank); }
  load(step) {
    const index = this.timeline.find(step);
    this.state = this.timeline.states[index];
    this.nodes = index < 0 ? new Map() : new Map(this.timeline.nodes(index));
    this.ended = this.state && this.state.step < step && index === this.timeline.states.length - 1;
  }
  hit(event) {
    const { left, top } = this.tree.getBoundingClientRect();
    const x = event.clientX - left, y = event.clientY - top;
    const found = this.boxes.find((box) => x >= box.x && x < box.x + box.width && y >= box.top && y < box.bottom);
    return found ? found.node[0] : null;
  }
  get partedNode() {
    const node = parting && this.state && this.state.step >= parting.step ? parting.nodes[this.timeline.ranks.find((rank) => rank in parting.nodes)] : null;
    return node || null;
  }
  // where everything goes; which nodes go next; how long ago each was used; which are unlike on the other rank
  layOut(other, deepest) {
    const { width, height } = this.tree.getBoundingClientRect();
    const { boxes, children } = places(this.nodes, width, height, deepest);
    this.boxes = boxes;
    this.leaves = evictable(this.nodes, children);
    this.next = new Map(this.leaves.slice(0, NEXT).map((node, index) => [node[0], index + 1]));
    const used = [...this.nodes.values()].map((node) => node[USED]).sort((a, b) => a - b);
    this.age = new Map(used.map((stamp, index) => [stamp, (index + 1) / used.length]));
    this.unlike = new Set(other ? boxes.map((box) => box.node).filter((node) => unlike(node, other.nodes.get(node[0]), this.timeline, other.timeline)) : []);
  }
  drawTree() {
    const { draw, width } = prepare(this.tree);
    const { boxes, leaves, next, age } = this;
    for (const box of boxes) {
      const { node, x, top } = box, gap = box.width > 3 ? 0.8 : 0;
      const wide = Math.max(box.width - gap, 0.4), tall = Math.max(box.bottom - top - 0.8, 0.6);
      draw.globalAlpha = 0.22 + 0.78 * age.get(node[USED]) ** 1.5;
      draw.fillStyle = tierColour(node[TIERS]);
      draw.fillRect(x, top, wide, tall);
      draw.globalAlpha = 1;
      if ((node[LOCKS] || node[PINS] || node[HOST_LOCKS]) && wide > 2) {
        draw.strokeStyle = colour.ink;
        draw.lineWidth = wide > 8 ? 1.8 : 1;
        draw.strokeRect(x + draw.lineWidth / 2, top + draw.lineWidth / 2, Math.max(wide - draw.lineWidth, 0.5), Math.max(tall - draw.lineWidth, 0.5));
      }
      if (this.unlike.has(node)) {
        draw.strokeStyle = colour.parted;
        draw.lineWidth = 1.5;
        draw.strokeRect(x + 0.75, top + 0.75, Math.max(wide - 1.5, 0.5), Math.max(tall - 1.5, 0.5));
      }
    }
    const parted = this.partedNode;
    for (const box of boxes) {
      if (next.has(box.node[0])) badge(draw, box, String(next.get(box.node[0])), colour.ink, colour.card, width);
      if (box.node[0] === parted) mark(draw, box, width);
      if (box.node[0] === (pointed ?? pinned)) {
        draw.strokeStyle = colour.ink;
        draw.lineWidth = 2.4;
        draw.setLineDash([4, 3]);
        draw.strokeRect(box.x + 1, box.top + 1, Math.max(box.width - 2, 1), Math.max(box.bottom - box.top - 2, 1));
        draw.setLineDash([]);
      }
    }
    this.drawOrder(leaves, parted);
  }
  drawOrder(leaves, parted) {
    const { draw, width, height } = prepare(this.order);
    const wide = Math.min(14, width / Math.max(leaves.length, 1));
    leaves.forEach((node, index) => {
      const x = index * wide, gap = wide > 3 ? 1 : 0;
      draw.fillStyle = node[0] === parted ? colour.parted : tierColour(node[TIERS]);
      draw.globalAlpha = 0.4 + (0.6 * (index + 1)) / leaves.length;
      draw.fillRect(x, 3, Math.max(wide - gap, 0.5), height - 6);
      draw.globalAlpha = 1;
      if (node[0] === (pointed ?? pinned)) {
        draw.strokeStyle = colour.ink;
        draw.lineWidth = 2;
        draw.strokeRect(x + 0.5, 2, Math.max(wide - 1, 2), height - 4);
      }
    });
    if (!leaves.length) {
      draw.fillStyle = colour.soft;
      draw.font = "12px system-ui, sans-serif";
      draw.fillText("nothing on the device can go", 2, 17);
    }
  }
  drawHead(other) {
    const state = this.state;
    this.element.classList.toggle("culprit", culprits.includes(this.rank));
    this.digest.textContent = state ? `digest ${state.digest}${this.ended ? `, ended at step ${state.step}` : ""}${state.open ? ", step not closed" : ""}` : "no state yet";
    this.digest.classList.toggle("unlike", Boolean(state && other.state && state.step === other.state.step && state.digest !== other.state.digest));
  }
}

function badge(draw, box, text, back, front, width) {
  const x = Math.min(Math.max(box.x + box.width / 2, 8), width - 8), y = Math.max(box.bottom - 9, box.top + 8);
  draw.fillStyle = back;
  draw.beginPath();
  draw.arc(x, y, 7.5, 0, 2 * Math.PI);
  draw.fill();
  draw.fillStyle = front;
  draw.font = "600 10px system-ui, sans-serif";
  draw.textAlign = "center";
  draw.textBaseline = "middle";
  draw.fillText(text, x, y + 0.5);
  draw.textAlign = "left";
  draw.textBaseline = "alphabetic";
}

function mark(draw, box, width) {
  draw.strokeStyle = colour.parted;
  draw.fillStyle = colour.parted;
  draw.globalAlpha = 0.85;
  draw.fillRect(box.x, box.top, Math.max(box.width - 0.8, 1.5), box.bottom - box.top - 0.8);
  draw.globalAlpha = 1;
  draw.lineWidth = 3;
  draw.strokeRect(box.x - 1, box.top - 1, Math.max(box.width, 3) + 2, box.bottom - box.top + 2);
  const label = "they part here", wide = 92, x = Math.min(Math.max(box.x + box.width / 2 - wide / 2, 2), width - wide - 2);
  const y = box.top > 26 ? box.top - 24 : box.bottom + 6;
  draw.beginPath();
  draw.roundRect(x, y, wide, 18, 5);
  draw.fill();
  draw.fillStyle = colour.card;
  draw.font = "600 11px system-ui, sans-serif";
  draw.textAlign = "center";
  draw.fillText(label, x + wide / 2, y + 13);
  draw.textAlign = "left";
}

const culprit = culprits[0] ?? (classes[1] && classes[1].ranks[0]);
const left = culprit === undefined ? ranks[0] : ranks.find((rank) => classOf.get(rank) !== classOf.get(culprit)) ?? ranks[0];
const right = culprit ?? ranks[1] ?? ranks[0];
const panes = [...view.querySelectorAll(".pane")].map((element, side) => new Pane(element, [left, right][side]));

function show() {
  const step = steps[position];
  readColours();
  panes.forEach((pane) => pane.load(step));
  const deepest = Math.max(1, ...panes.flatMap((pane) => [...pane.nodes.values()].map((node) => node[DEPTH])));
  panes.forEach((pane, side) => {
    const other = panes[1 - side], alike = pane.timeline === other.timeline || pane.ended || other.ended || !other.state;
    pane.drawHead(other);
    pane.layOut(alike ? null : other, deepest);
  });
  at("slider").value = String(position);
  const sizes = panes[0].state ? panes[0].state.sizes : [0, 0, 0];
  at("where").innerHTML = `step <b>${step.toLocaleString("en")}</b> of ${steps[steps.length - 1].toLocaleString("en")} &middot; ${sizes[2].toLocaleString("en")} nodes, ${sizes[0].toLocaleString("en")} tokens on the device, ${sizes[1].toLocaleString("en")} on host`;
  drawTimeline();
  showLog();
  paint();
}

function paint() {
  panes.forEach((pane) => pane.drawTree());
  showNode();
}

function drawTimeline() {
  const { draw, width, height } = prepare(at("timeline"));
  const x = (index) => 8 + (index / Math.max(steps.length - 1, 1)) * (width - 16);
  const timeline = panes[0].timeline, most = Math.max(1, ...timeline.states.flatMap((state) => state.sizes.slice(0, 2)));
  const place = new Map(steps.map((step, index) => [step, index]));
  [[1, colour.host], [0, colour.device]].forEach(([size, paint]) => {
    const points = timeline.states.map((state) => [x(place.get(state.step)), height - 4 - (state.sizes[size] / most) * (height - 14)]);
    if (!points.length) return;
    draw.beginPath();
    draw.moveTo(points[0][0], height - 4);
    points.forEach(([px, py]) => draw.lineTo(px, py));
    draw.lineTo(points[points.length - 1][0], height - 4);
    draw.globalAlpha = 0.16;
    draw.fillStyle = paint;
    draw.fill();
    draw.globalAlpha = 1;
    draw.beginPath();
    points.forEach(([px, py], index) => (index ? draw.lineTo(px, py) : draw.moveTo(px, py)));
    draw.strokeStyle = paint;
    draw.lineWidth = 1.6;
    draw.stroke();
  });
  draw.font = "11px system-ui, sans-serif";
  draw.fillStyle = colour.device;
  draw.fillText("device", 10, 11);
  draw.fillStyle = colour.host;
  draw.fillText("host", 52, 11);
  draw.fillStyle = colour.soft;
  draw.fillText(`tokens, ${most.toLocaleString("en")} at most`, 84, 11);
  if (parting && place.has(parting.step)) {
    const px = x(place.get(parting.step));
    draw.strokeStyle = draw.fillStyle = colour.parted;
    draw.lineWidth = 2;
    draw.beginPath();
    draw.moveTo(px, 0);
    draw.lineTo(px, height);
    draw.stroke();
    draw.textAlign = px > width - 90 ? "right" : "left";
    draw.fillText("parted", px + (px > width - 90 ? -6 : 6), 24);
    draw.textAlign = "left";
  }
  draw.strokeStyle = colour.ink;
  draw.globalAlpha = 0.5;
  draw.lineWidth = 1;
  draw.beginPath();
  draw.moveTo(x(position), 0);
  draw.lineTo(x(position), height);
  draw.stroke();
  draw.globalAlpha = 1;
}

function point(node) {
  if (node !== pointed) { pointed = node; paint(); }
}

const text = (tag, content, name) => {
  const made = document.createElement(tag);
  made.textContent = content;
  if (name) made.className = name;
  return made;
};

function showNode() {
  const node = pointed ?? pinned, place = at("node");
  if (node === null) {
    place.replaceChildren(text("p", "Point at a node to see it on both ranks; click to keep it; double-click for what is below it.", "soft"));
    return;
  }
  const both = panes.map((pane) => pane.nodes.get(node));
  const tiers = ["", "device", "host", "device and host"];
  const rows = [
    ["node", (one) => one[0]], ["below", (one) => (one[PARENT] ? `node ${one[PARENT]}` : "the root")],
    ["tokens", (one) => one[LENGTH].toLocaleString("en")], ["depth", (one) => one[DEPTH].toLocaleString("en")],
    ["tier", (one) => tiers[one[TIERS]]], ["locks", (one) => one[LOCKS]], ["pins", (one) => one[PINS]],
    ["locks on host", (one) => one[HOST_LOCKS]], ["last use", (one) => `seq ${one[USED].toLocaleString("en")}`], ["hits", (one) => one[HITS]],
    ["begins with", (one, pane) => `${pane.timeline.content(one)[1].join(" ")} ...`],
    ["content", (one, pane) => pane.timeline.content(one)[0].toString(16).padStart(8, "0")],
  ];
  const table = document.createElement("table");
  const head = table.insertRow();
  head.append(text("th", ""), ...panes.map((pane) => text("th", `rank ${pane.rank}`)));
  for (const [name, read] of rows) {
    const row = table.insertRow(), values = both.map((one, side) => (one ? String(read(one, panes[side])) : "not there"));
    row.append(text("th", name), ...values.map((value) => text("td", value, values[0] === values[1] ? "" : "unlike")));
  }
  place.replaceChildren(table);
}

function showLog() {
  const place = at("log"), step = steps[position];
  const logs = panes.map((pane) => (pane.state && pane.state.step === step ? pane.state.log : undefined));
  if (!logs.some(Boolean)) {
    place.replaceChildren(text("p", "Calls are shown for the steps around the parting, or around the end.", "soft"));
    return;
  }
  const lines = logs.map((log) => (log || []).flatMap(([call, decided]) => [["call", call], ...decided.map((one) => ["decided", one])]));
  const columns = panes[0].timeline === panes[1].timeline ? [0] : [0, 1];
  const made = columns.map((side) => {
    const column = document.createElement("div");
    column.append(text("h4", columns.length > 1 ? `rank ${panes[side].rank}, step ${step}` : `calls of step ${step}, and what was decided`));
    lines[side].forEach(([kind, line], index) => {
      const other = columns.length > 1 ? lines[1 - side][index] : undefined;
      column.append(text("div", line, kind + (columns.length > 1 && lines[1 - side].length && (!other || other[1] !== line) ? " unlike" : "")));
    });
    return column;
  });
  const grid = document.createElement("div");
  if (columns.length > 1) grid.className = "columns";
  grid.append(...made);
  place.replaceChildren(grid);
  const first = place.querySelector(".call.unlike, .decided.unlike");
  place.scrollTop = first ? Math.max(0, first.offsetTop - place.offsetTop - 60) : 0;
}

// what lies below a node, over the whole width; null for the whole tree
function zoom(node) {
  zoomed = node !== null && node === zoomed ? null : node;
  at("zoom").hidden = zoomed === null;
  show();
}

// where they part, and the path to it
function near() {
  go(partingAt());
  const pane = panes.find((one) => one.nodes.has(one.partedNode));
  if (!pane) return;
  pinned = pane.partedNode;
  zoomed = null;
  zoom(pinned);
}

function go(to) {
  position = Math.min(Math.max(to, 0), steps.length - 1);
  show();
}
const partingAt = () => (parting ? steps.findLastIndex((step) => step <= parting.step) : steps.length - 1);
function play() {
  if (timer !== null) { clearInterval(timer); timer = null; at("play").innerHTML = "&#x25b6;"; return; }
  if (position === steps.length - 1) position = 0;
  at("play").innerHTML = "&#x23f8;";
  timer = setInterval(() => { if (position === steps.length - 1) play(); else go(position + 1); }, 120);
}

at("slider").max = String(steps.length - 1);
at("slider").addEventListener("input", (event) => go(Number(event.target.value)));
at("first").addEventListener("click", () => go(0));
at("back").addEventListener("click", () => go(position - 1));
at("on").addEventListener("click", () => go(position + 1));
at("play").addEventListener("click", play);
at("jump").addEventListener("click", () => go(partingAt()));
at("zoom").addEventListener("click", () => zoom(null));
at("near").addEventListener("click", near);
at("near").hidden = !(parting && Object.keys(parting.nodes).length);
at("jump").textContent = parting ? "to the parting" : "to the end";
document.addEventListener("keydown", (event) => {
  if (event.target.matches("select, input")) return;
  const act = { ArrowLeft: () => go(position - 1), ArrowRight: () => go(position + 1), Home: () => go(0), End: () => go(steps.length - 1), p: () => go(partingAt()), z: near, Escape: () => zoom(null), " ": play }[event.key];
  if (act) { event.preventDefault(); act(); }
});
window.addEventListener("resize", show);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);

const verdict = at("verdict");
if (parting) {
  verdict.classList.add("bad");
  verdict.append(text("b", parting.decision || `ranks part at step ${parting.step}`));
  verdict.append(text("span", parting.input ? `the input that differs: ${parting.input}` : "no input differs: equal inputs, unequal decisions"));
} else {
  verdict.append(text("b", "These ranks are equal, as far as they go."));
}
for (const one of classes) if (one.note) verdict.append(text("span", `rank ${one.ranks[0]} done again is another run: ${one.note}`));
view.hidden = false;
if (steps.length) { position = Math.max(partingAt(), 0); show(); }
})();
