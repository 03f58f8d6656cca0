# Everything here sets itself up: the first run makes .venv, later ones find it.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: help check-goldens update-goldens test lint bench clean

help: ## Show these targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

check-goldens: .venv/gate ## Compare the goldens with what the templates render
	@$(BIN)/im2col check-goldens

update-goldens: .venv/gate ## Accept what the templates render
	@$(BIN)/im2col check-goldens --update

test: .venv/test ## Run the tests
	@$(BIN)/im2col adapters >/dev/null 2>&1 || .ci/adapter
	@$(BIN)/python -m pytest --numprocesses auto --dist loadfile

lint: .venv/test ## Check style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: .venv/gate ## Time the gate against the imports it cannot do without
	@$(BIN)/python tests/bench.py

clean: ## Remove what the other targets made
	rm -rf .venv dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/gate: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: $(PYTHON) is older than 3.11: name another, make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv .venv \
		|| { echo "error: $(PYTHON) cannot make .venv: install its venv module (python3-venv)"; exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/test: .venv/gate
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test,lint]'
	@touch $@
