# Two commands matter: `make run` and `make test`. Both set everything up by themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup run test lint rules-check nightly clean

setup: $(STAMP)

$(STAMP): pyproject.toml setup.py service/text/*.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev,peers,fleet,embedder,mcp,models,otlp]"
	touch $(STAMP)

# The main job on the embedded default: writer, Litestream, a folder as object store, reader,
# the demo memory, one query. Ctrl-C stops it.
run: setup
	$(BIN)/memlane up --data memlane-data --demo

test: setup lint
	$(BIN)/python -m pytest -m "not slow"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The alerting rules parse, fire when they should and stay quiet when they should.
rules-check:
	promtool check rules deploy/prometheus/rules/*.yml
	promtool test rules deploy/prometheus/tests/*.yml

# The slow suites too: soak, chaos, growth.
nightly: setup lint
	$(BIN)/python -m pytest

clean:
	rm -rf $(VENV) build *.egg-info memlane-data
	find . -name '*.so' -path './service/*' -delete
