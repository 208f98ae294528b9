# `make demo` and `make test` do all of their own set-up; `make help` lists the rest.

VENV ?= .venv
PYTHON ?=
TORCH ?= yes
FUZZ_SECONDS ?= 60
TRACE ?=
WORKLOAD ?= agent
REQUESTS ?= 2000
AGAIN ?= 500
LIMIT ?= 1500
SEED ?= 1
SEEDS ?= 100
RANKS ?= tp2,pp2,tp2xpp2,pp8,tp2xpp2xcp2xdp2
DECIDING ?= pp4,pp8,tp2xpp4
FRESH ?= 100
FRESH_FROM ?= $(shell date +%s)
PAGE_SIZE ?= 64
CAPACITY ?= $(if $(TRACE),1M,200k)
HOST_CAPACITY ?= $(if $(TRACE),4M,1M)
REPORT ?= out/demo.html
SELECT ?=
STORAGE ?=
WRITE ?=
SGLANG ?= 0.5.23
PYTEST_ARGS ?= -n auto

export PYTHON SGLANG
STAMPS := $(VENV)/.stamps
BIN := $(VENV)/bin
RUST_SOURCES := $(shell find crates -path '*/target' -prune -o \( -name '*.rs' -o -name Cargo.toml -o -name build.rs \) -print)

# without torch there are no ranks, and the demo is one cache in one process
NEEDS_TORCH := $(if $(filter no,$(TORCH)),,$(STAMPS)/torch)
DEMO_RANKS = $(if $(NEEDS_TORCH),--tp 2 --pp 2 --host-capacity $(HOST_CAPACITY))
# a trace has too many pages for small files
DEMO_GIVEN = $(filter-out file,$(STORAGE))
DEMO_STORE = $(if $(NEEDS_TORCH),$(if $(TRACE)$(DEMO_GIVEN),,out/demo-kv))
DEMO_URL = $(if $(NEEDS_TORCH),$(or $(DEMO_GIVEN),$(if $(DEMO_STORE),file://$(CURDIR)/$(DEMO_STORE))))
DEMO_REPLAY = $(BIN)/isoradix replay $(DEMO_SOURCE) --page-size $(PAGE_SIZE) --capacity $(CAPACITY) $(DEMO_RANKS) $(if $(DEMO_URL),--storage "$(DEMO_URL)")
DEMO_SOURCE = $(if $(TRACE),"$(TRACE)" --limit $(LIMIT),--workload $(WORKLOAD) --requests $(REQUESTS) --seed $(SEED))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-rust test-python test-cluster soak test-peers test-sglang side-by-side simulate explore lint format wheel bench bench-peers plot fuzz clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(STAMPS)/extension $(NEEDS_TORCH) ## replay a built-in workload (or TRACE=path) on four ranks, TP 2 x PP 2, twice with storage, and write out/demo.html; STORAGE=mooncake, or a URL: over that instead of files
ifeq ($(STORAGE),mooncake)
	tools/mooncake.sh $(VENV) $(MAKE) --no-print-directory demo
else
	@mkdir -p "$(dir $(REPORT))"
	$(if $(DEMO_STORE),rm -rf $(DEMO_STORE))
	$(DEMO_REPLAY) --report "$(REPORT)"
	$(if $(DEMO_URL),@echo; echo "once more with fresh ranks: they find in storage what the first have left")
	$(if $(DEMO_URL),$(subst --requests $(REQUESTS),--requests $(AGAIN),$(DEMO_REPLAY)))
	$(if $(DEMO_STORE),@rm -rf $(DEMO_STORE))
endif

test: test-rust test-python ## every test of the core and of the Python package

test-rust: ## the core's tests (with cargo-nextest where it is installed)
	@tools/setup.sh rust $(VENV)
	tools/test-rust.sh

test-python: $(STAMPS)/extension $(STAMPS)/test $(NEEDS_TORCH) dist/.stamp ## the Python package's tests, the wheel's among them
	$(BIN)/python -m pytest tests $(PYTEST_ARGS)

test-cluster: $(STAMPS)/extension $(STAMPS)/test $(STAMPS)/torch ## ranks as processes, under faults, on every topology (minutes)
	$(BIN)/python -m pytest tests/cluster tests/doctor tests/test_minillm.py tests/test_disaggregated.py -m "(cluster or slow) and not soak"

soak: $(STAMPS)/extension $(STAMPS)/test $(STAMPS)/torch ## a quarter of an hour on four ranks under all faults: no divergence, no leak
	$(BIN)/python -m pytest tests/cluster/test_soak.py -m soak

test-peers: $(STAMPS)/extension ## the same decisions as SGLang's own caches (installs SGLang into .venv-peers)
	benches/peers/run.sh test

test-sglang: dist/.stamp ## a real SGLang server with this cache, beside its own (minutes; installs SGLang into .venv-sglang); SELECT=short, SGLANG=0.5.22
	tools/sglang.sh test -m "sglang$(if $(filter short,$(SELECT)), and not slow)"

side-by-side: dist/.stamp ## the same faults in a real SGLang server, with its own cache and with this one: the table in README.md; STORAGE=file or mooncake: faults of that
	tools/sglang.sh side-by-side $(if $(STORAGE),--storage "$(STORAGE)") $(if $(WRITE),--write "$(WRITE)")

lint: $(STAMPS)/extension $(STAMPS)/lint ## formatting, clippy, ruff, mypy and the stubs against the module
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --package isoradix-core --package isoradix-sim --all-targets --features isoradix-sim/planted-defects -- -D warnings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/stubtest isoradix._isoradix

format: $(STAMPS)/lint ## rewrite the sources the way lint wants them
	cargo fmt --all
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

wheel: dist/.stamp ## build the abi3 wheel into dist/
	@ls dist/*.whl

bench: $(STAMPS)/extension $(STAMPS)/bench ## criterion for the core, pytest-benchmark for the Python package
	cargo bench --package isoradix-core
	$(BIN)/python -m pytest benches --benchmark-only

bench-peers: $(STAMPS)/extension ## isoradix and SGLang's caches in one run, written to benches/RESULTS.md
	@touch $(STAMPS)/peers-started
	benches/peers/run.sh bench; code=$$?; \
	if [ benches/RESULTS.json -nt $(STAMPS)/peers-started ]; then $(BIN)/python -m benches.plot || exit; fi; \
	exit $$code

plot: $(STAMPS)/extension ## the picture in README.md, from the last make bench-peers
	$(BIN)/python -m benches.plot

simulate: ## many ranks in virtual time under faults: SEEDS=100 on RANKS=tp2,pp2 each, FRESH=100 more from the clock, decisions on DECIDING=pp4,pp8 too, and what 512 ranks cost
	@tools/setup.sh rust $(VENV)
	cargo run --release --package isoradix-sim -- --seeds $(SEEDS) --ranks $(RANKS) --progress
	cargo run --release --package isoradix-sim -- --from $(FRESH_FROM) --seeds $(FRESH) --ranks $(RANKS) --spread --progress
	cargo run --release --package isoradix-sim -- --family decisions --seeds $(SEEDS) --ranks $(DECIDING) --progress
	cargo run --release --package isoradix-sim -- --family abort-storm --from $(FRESH_FROM) --seeds $(FRESH) --ranks $(DECIDING) --spread --progress
	cargo run --release --package isoradix-sim -- --growth

explore: ## every interleaving of small scopes of two and three ranks (minutes)
	@tools/setup.sh rust $(VENV)
	cargo run --release --package isoradix-sim -- --exhaustive --progress

fuzz: ## a minute of random operation sequences
	@tools/setup.sh rust $(VENV)
	cargo run --release --package isoradix-core --example fuzz_operations -- --seconds $(FUZZ_SECONDS) --seed $(SEED)

clean: ## remove everything that make has made
	cargo clean
	rm -rf $(VENV) .venv-peers .venv-sglang dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find python tests benches -name __pycache__ -prune -exec rm -rf {} +
	rm -f python/isoradix/*.so

# Set-up. A stamp is newer than all that it was made from, so a second run does nothing.

$(STAMPS)/venv: tools/setup.sh
	@tools/setup.sh venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/build $(STAMPS)/test $(STAMPS)/lint $(STAMPS)/bench: pyproject.toml $(STAMPS)/venv
	@tools/setup.sh install $(VENV) "the $(@F) tools" --group $(@F)
	@touch $@

$(STAMPS)/torch: $(STAMPS)/venv
	@tools/setup.sh torch $(VENV)
	@touch $@

$(STAMPS)/extension: $(RUST_SOURCES) Cargo.toml Cargo.lock pyproject.toml $(STAMPS)/build
	@tools/setup.sh extension $(VENV)
	@touch $@

dist/.stamp: $(RUST_SOURCES) Cargo.toml Cargo.lock pyproject.toml README.md LICENSE $(shell find python \( -name '*.py*' -o -name '*.json' \) -not -path '*/__pycache__/*') | $(STAMPS)/build
	@tools/setup.sh wheel $(VENV)
	@touch $@
