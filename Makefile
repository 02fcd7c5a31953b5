# `make demo` and `make test` set up all they need; `make help` lists the rest.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed
CORES ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: help env demo gallery test slurm lint format clean lock
.DEFAULT_GOAL := help

help:
	@echo "make demo    the whole study on data it makes itself, no GPU; ends with results/demo/report.html"
	@echo "make gallery pictures of the demo's report for docs/gallery.md, by headless Chromium"
	@echo "make test    linters and tests"
	@echo "make slurm   the tests on a real SLURM, as root where Debian's packages of it are installed"
	@echo "make env     the environment alone, in $(VENV)"
	@echo "make lint    ruff, snakefmt, snakemake --lint"
	@echo "make format  rewrite the code in its one format"
	@echo "make lock    write requirements.lock from the newest versions that pyproject.toml allows"
	@echo "make clean   remove the environment (results stay)"

$(READY): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not here: install Python 3.11, or name another with make PYTHON=python3.12 …" >&2; exit 1; }
	@echo "making the environment in $(VENV) (a few minutes, once)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

env: $(READY)

demo: $(READY)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/snakemake --cores $(CORES) results/demo/report.html
	@echo "the report is at $(CURDIR)/results/demo/report.html"

gallery: demo
	$(BIN)/python docs/gallery.py results/demo/report.html docs/images

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile rules
	$(BIN)/python -m tests.workflow.lint

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile rules

test: $(READY) lint
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slurm"

slurm: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -m slurm

lock:
	rm -rf .lock-env && $(PYTHON) -m venv .lock-env
	.lock-env/bin/python -m pip install --quiet "torch==2.13.0" setuptools ".[dev]"
	{ head -n 2 requirements.lock; .lock-env/bin/python -m pip freeze --all \
	  | grep -viE '^(pip|xsa|nvidia-|cuda-|triton)' | sed -E 's/\+[a-z0-9.]+$$//' | LC_ALL=C sort -f; } > requirements.lock.new
	mv requirements.lock.new requirements.lock && rm -rf .lock-env

clean:
	rm -rf $(VENV)
