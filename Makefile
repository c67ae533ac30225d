# Each target says what it does: `make help` lists them.
.DEFAULT_GOAL := help
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help up test slow cluster lint types bench crds clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

up: $(READY) ## Run the platform of examples/02 on this machine, at http://127.0.0.1:8080
	$(BIN)/tenantry up examples/02-music-company

test: $(READY) ## Run the tests that a change must pass, under five minutes
	$(BIN)/pytest -n 2 -m 'not slow' tests

slow: $(READY) ## Run the slow tier: every crash point, real SIGKILLs, whole campaigns
	$(BIN)/pytest -n 2 -m 'slow and not cluster' tests

cluster: $(READY) ## Run the tests on a real API server: KUBECONFIG's, KUBEBUILDER_ASSETS', or one built with Go
	$(BIN)/pytest -n 2 -m cluster tests

lint: $(READY) types ## Check style, layers and types
	$(BIN)/ruff check operator tests
	$(BIN)/ruff format --check operator tests
	PYTHONPATH=operator $(BIN)/lint-imports

types: $(READY) ## Check types, strictly
	MYPYPATH=operator $(BIN)/mypy

bench: $(READY) ## Measure, as ratios in one run, and print the table
	$(BIN)/python -m tests.bench

crds: $(READY) ## Write crds/ anew from the typed specs
	$(BIN)/tenantry crds --out crds

clean: ## Remove the virtual environment and the state of `make up`
	rm -rf $(VENV) .tenantry
