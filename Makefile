# `make demo` and `make test` do all the set-up they need, in .venv.

# Where Python is looked for; the first that is new enough and has venv is taken. `make PYTHON=python3.12 ...` names one.
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3
# Extra arguments of the program that the target runs: `make test ARGS="-k mailbox"`.
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
# Not wanted: a guaranteed checkpoint in every function (9xx; the docstrings say which are), no async function without an
# await (124; a handler may be one), a list of the functions that take a task_status (114).
FLAKE8 := $(BIN)/flake8 --isolated --select=ASYNC --disable=ASYNC9,ASYNC114,ASYNC124,ASYNC401
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
SOURCES := lifecycle leases transport actors examples benchmarks tests

.PHONY: help demo test check bench docs clean
.NOTPARALLEL:

help:
	@echo "make demo   run the demonstration"
	@echo "make test   run the tests"
	@echo "make check  run the linters, the type checkers and the import rules"
	@echo "make bench  run the benchmarks"
	@echo "make docs   write docs/conformance.md"
	@echo "make clean  remove the environments, caches and builds"

demo: $(VENV)/.core
	@$(BIN)/tenure demo $(ARGS)

test: $(VENV)/.test
	$(BIN)/python -m pytest --timeout=120 $(ARGS)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(FLAKE8) $(SOURCES)
	$(BIN)/mypy
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/python -m tests.conformance --check

bench: $(VENV)/.core
	$(BIN)/python -m benchmarks.actors $(ARGS)
	$(BIN)/python -m benchmarks.lifecycle $(ARGS)

docs: $(VENV)/.test
	$(BIN)/python -m tests.conformance

clean:
	rm -rf $(VENV) .bench build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: each says what .venv holds, and is made anew when pyproject.toml changes.

$(VENV)/.made:
	@missing="python3 (3.11 or newer)"; \
	for python in $(PYTHON); do \
	    $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    missing="python3-venv (for $$python)"; \
	    $$python -c 'import ensurepip, venv' 2>/dev/null || continue; \
	    $$python -m venv --clear $(VENV) && touch $@; exit; \
	done; \
	echo "Tenure needs $$missing. On Debian: apt install python3 python3-venv make" >&2; exit 1

$(VENV)/.core: $(VENV)/.made pyproject.toml
	@echo "Installing Tenure into $(VENV)"
	@$(PIP) install -e . && touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml
	@echo "Installing Tenure and what its tests need into $(VENV)"
	@$(PIP) install -e '.[test]' && touch $(VENV)/.core $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	@echo "Installing Tenure, what its tests need and the checkers into $(VENV)"
	@$(PIP) install -e '.[dev,test]' && touch $(VENV)/.core $(VENV)/.test $@
