# make demo   set up what is missing, then the main job
# make test   set up what is missing, then every test but the extras
# The rest: make help

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python
PROFILE := release
# Cargo keeps what the profile dev makes in a folder of another name.
BIN = target/$(PROFILE:dev=debug)/multipilot
EXTRAS := test
SKIPPED := $(CURDIR)/target/skipped
export MULTIPILOT_SKIPPED := $(SKIPPED)
# As in fuzz: the same cases each time. PROPTEST_RNG_SEED=N tries others, and cargo test by itself does too.
export PROPTEST_RNG_SEED ?= 1
export PIP_QUIET := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.PHONY: help setup setup-tests setup-extras setup-packages build python demo try test lint test-rust test-python test-extras test-kernels test-packages packages wheel install uninstall fuzz pages bench clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | column -t -s "$$(printf '\t')"

setup: ## system packages that are missing (apt), checked each time
	@scripts/setup

setup-tests:
	@scripts/setup tests

setup-extras:
	@scripts/setup extras

setup-packages:
	@scripts/setup packages

# Command and environment may be made in either order: whichever is second links the one into the other.
LINK = [ ! -x $(BIN) ] || [ ! -d $(VENV)/bin ] || ln -sf $(CURDIR)/$(BIN) $(VENV)/bin/multipilot

build: setup ## the multipilot command
	cargo build --profile $(PROFILE) --locked -p multipilot
	@$(LINK)

# The stamp is older than the package's dependencies when pyproject.toml changes; the extension itself is cargo's to judge.
# What an interrupted call has left may not work.
$(VENV)/.stamp: python/pyproject.toml
	python3 -m venv --clear $(VENV)
	$(VENV)/bin/pip install --upgrade pip
	$(VENV)/bin/pip install maturin
	touch $@

python: setup $(VENV)/.stamp ## the Python package, in .venv
	cd python && ../$(VENV)/bin/maturin develop --profile $(PROFILE) --quiet $(if $(EXTRAS),--extras $(EXTRAS))
	@$(LINK)

# The figures come first: the Python package, which draws them, takes minutes to build.
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
FOLDER = results/$@-$(STAMP)
STAMP := $(shell date +%Y%m%d-%H%M%S)
DRAW = $(MAKE) --no-print-directory python PROFILE=$(PROFILE) EXTRAS= && echo -n "report: " && $(VENV)/bin/multipilot-report $(FOLDER)

# Nearly as fast as a release, and built in a fraction of the time.
demo: PROFILE := tune
demo: EXTRAS :=
demo: build ## one file over emulated Wi-Fi and LTE, alone and together: which does better and why
	$(BIN) demo --no-report --out $(FOLDER)
	@$(DRAW)
	@[ -z "$(SUDO)" ] || echo "on the kernel: sudo $(VENV)/bin/multipilot demo"

try: PROFILE := tune
try: EXTRAS :=
try: build ## a download, a call and pages while the Wi-Fi dies: plain TCP, MPTCP, the relay (root; one minute)
	@mkdir -p $(FOLDER)
	$(SUDO) $(BIN) try --no-report --out $(FOLDER)
	@$(DRAW)

lint: setup-tests python ## formatters and linters for Rust, C and Python
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets --locked -- -D warnings
	clang-format --dry-run --Werror $$(git ls-files '*.c' '*.h')
	$(VENV)/bin/ruff check --config python/pyproject.toml reproductions benches benches/run
	$(VENV)/bin/ruff format --config python/pyproject.toml --check reproductions benches benches/run
	cd python && ../$(VENV)/bin/ruff check . && ../$(VENV)/bin/ruff format --check . && ../$(VENV)/bin/mypy

# As cargo test: it has built nearly all of it already.
test lint test-python test-extras: PROFILE := dev

# A test that cannot run here adds a line to the file, and the end says how many did. MAKEFLAGS would send cargo to a
# jobserver that it cannot reach.
test-rust: setup-tests
	@mkdir -p target && rm -f $(SKIPPED)
	MAKEFLAGS= cargo test --workspace --locked
	@[ ! -s $(SKIPPED) ] || { echo "$$(wc -l < $(SKIPPED)) tests skipped:"; cat $(SKIPPED); }

test-python: build python
	cd python && ../$(PY) -m pytest -m 'not extras'

# Clippy and the Python tests compute while the kernel's tests wait. All have to find the command built.
test: setup-tests build python ## every test but the extras
	cargo test --workspace --locked --no-run
	@$(MAKE) --no-print-directory -j3 lint test-rust test-python

test-kernels: setup-extras build ## boot the stock kernels of Debian 12 and 13 under QEMU and try every controller there
	tests/kernels/run debian12
	tests/kernels/run debian13

# One seed and a count, not a time: whether a change may land depends neither on chance nor on the machine. A hunt: fuzz/run.
fuzz: setup ## fuzzing of each parser, 100,000 inputs each
	fuzz/run -seed=1 -runs=100000

test-extras: EXTRAS := test,extras,federation,learn,onnx,sweep,tensorboard
test-extras: setup-extras build python test-kernels fuzz ## what needs heavy packages or minutes
	cd python && ../$(PY) -m pytest -m extras

PAPERS := $(subst _,-,$(patsubst reproductions/%/__init__.py,%,$(wildcard reproductions/*/__init__.py)))

pages: build python ## the papers' pages from the records in results/, simulated where missing, into target/pages
	mkdir -p target/pages
	for paper in $(PAPERS); do \
	  $(VENV)/bin/multipilot-paper $$paper --world sim --out results/$$paper; \
	  cp results/$$paper/index.html target/pages/$$paper.html; \
	done

bench: setup-tests build python ## the figures of docs/measurements.md
	cargo build --quiet --locked --profile $(PROFILE) -p mp-relay --example quic
	$(PY) benches/run

# PREFIX (default /usr/local) and DESTDIR as everywhere.
packages: setup-packages build wheel ## Debian package, tarball and wheel, in target/packages
	packaging/tree $(BIN) target/packages/tree
	packaging/tarball target/packages/tree target/packages
	packaging/deb target/packages/tree target/packages

# maturin takes what lies in MODULE.data/scripts for commands.
wheel: build python ## the Python package with the command, in target/packages
	@install -D $(BIN) python/multipilot._core.data/scripts/multipilot
	@trap 'rm -rf python/multipilot._core.data' EXIT; \
	$(VENV)/bin/maturin build --profile $(PROFILE) --quiet --manifest-path python/Cargo.toml --out target/packages
	@for wheel in target/packages/*.whl; do $(PY) -m zipfile -l $$wheel | grep -q 'data/scripts/multipilot ' || { echo "$$wheel: without the command" >&2; exit 1; }; done

# Nothing is built here: sudo has another user's cargo, or none.
install: ## the command, man pages, completions, units and configuration below PREFIX, after make build
	@[ -x $(BIN) ] || { echo "install: there is no $(BIN); call make build first" >&2; exit 2; }
	@work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; packaging/tree $(BIN) "$$work/tree"; packaging/install "$$work/tree"

uninstall: ## what make install installed
	@packaging/install --remove

test-packages: setup-extras packages ## install, upgrade and purge the Debian package in clean Debian 12 and 13; needs a mirror of Debian
	tests/packages/run target/packages

clean: ## what was built here
	rm -rf target $(VENV)
