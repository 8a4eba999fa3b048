# `make` alone lists the targets. Everything runs in .venv, made on first use and again when the requirements change.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help venv demo demo-check test matrix lint format docs bench gauntlet lock clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

venv: $(STAMP) ## make the virtual environment

$(STAMP): requirements/dev.txt requirements/mysql.txt pyproject.toml .python-version .ci/make-venv
	@.ci/make-venv $(VENV)
	@touch $@

demo: venv ## start the demo site and a worker; Ctrl-C ends both
	@$(BIN)/python examples/demo/run.py

demo-check: venv ## the demo without a browser: upload, wait for the result, exit 0
	@$(BIN)/python examples/demo/run.py --check

test: venv ## run the tests (PYTEST_ARGS="-k name -x")
	@PYTHONDEVMODE=1 $(BIN)/python -m pytest $(PYTEST_ARGS)

matrix: venv ## run the fast tests on the wheel with every Python and Django found (ARGS="--only NAME")
	@$(BIN)/python .ci/matrix $(ARGS)

lint: venv ## ruff, formatting, types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo "run 'make format'" >&2; exit 1; }
	@$(BIN)/mypy

format: venv ## let ruff format the code and sort the imports
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: venv ## write the reference from the code, build the documentation into site/
	@$(BIN)/python docs/generate.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: venv ## run the benchmarks (ARGS="--publish")
	@$(BIN)/python -m benchmarks $(ARGS)

gauntlet: venv ## run the fault scenarios
	@$(BIN)/python -m gauntlet

lock: venv ## pin what pyproject.toml needs (ARGS=--upgrade)
	@$(BIN)/python .ci/lock $(ARGS)

clean: ## remove everything that can be made again
	@rm -rf $(VENV) .demo site build dist htmlcov .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find src tests examples benchmarks gauntlet -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
