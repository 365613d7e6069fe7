# `make demo` shows results in minutes; `make test` checks everything. Both need only Python and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One process for each core, each with the files of its own, so that compiled functions are shared.
WORKERS ?= auto

.PHONY: help demo test lint types unit slow docs results bench wheel format clean

help:
	@echo "make demo     a quick pair of rows for every system, and report.html"
	@echo "make test     lint, types, tests and docs"
	@echo "make bench    timings, side by side, to bench.json"
	@echo "make results  docs/results.md from the records in evidence/"
	@echo "make slow     the tests that take minutes"
	@echo "make docs     the documentation, to site/"
	@echo "make wheel    a wheel, to dist/"
	@echo "make format   format and fix the code"

demo: $(VENV)/core
	$(BIN)/recombine demo

test: lint types unit docs

lint: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/dev
	$(BIN)/basedpyright --pythonpath $(BIN)/python

unit: $(VENV)/dev
	$(BIN)/pytest -n $(WORKERS) --dist loadfile

slow: $(VENV)/dev
	$(BIN)/pytest -m slow

docs: $(VENV)/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

results: $(VENV)/dev
	$(BIN)/python docs/make_results.py

bench: $(VENV)/core
	$(BIN)/python benchmarks/run.py

wheel: $(VENV)/dev
	$(BIN)/python -m build --wheel

format: $(VENV)/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist site report.html bench.json

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "recombine needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/core: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/core
