# Each target says what it does: `make help` lists them.
.DEFAULT_GOAL := help
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
IMAGE := tenantry:$(shell awk '/^appVersion:/ {print $$2}' charts/tenantry/Chart.yaml)
KIND ?= tenantry
# Tests wait more than they compute: two workers a core keep the cores busy.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(2 * os.cpu_count())')
LOCK = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
  --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'

.PHONY: help up test slow campaigns cluster node processes lint types bench bench-cluster crds lock image kind-up clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

up: $(READY) ## Run the platform of examples/02 on this machine, at http://127.0.0.1:8080
	$(BIN)/tenantry up examples/02-music-company

test: $(READY) ## Run the tests that a change must pass, under five minutes
	$(BIN)/pytest -n $(WORKERS) -m 'not slow' tests

slow: $(READY) ## Run the slow tier: every crash point, real SIGKILLs, the suites on PostgreSQL
	$(BIN)/pytest -n $(WORKERS) -m 'slow and not campaign and not cluster and not node' tests

campaigns: $(READY) ## Run the fault and attack campaigns at full count (ROWS="R3 S8": only some); write docs/reliability.md
	$(BIN)/python -m tests.campaigns $(ROWS)

cluster: $(READY) ## Run the tests on a real API server: KUBECONFIG's, KUBEBUILDER_ASSETS', or one built with Go
	$(BIN)/pytest -n 2 -m 'cluster and not processes' tests

processes: $(READY) ## Run the operator and the api on a real API server, killed, robbed and cut off
	$(BIN)/pytest -m processes tests

node: $(READY) ## Run the whole way on a node of its own: image, chart, examples, upgrade, uninstall
	$(BIN)/pytest -m node tests

lint: $(READY) types ## Check style, layers and types
	$(BIN)/ruff check operator tests
	$(BIN)/ruff format --check operator tests
	PYTHONPATH=operator $(BIN)/lint-imports

types: $(READY) ## Check types, strictly
	MYPYPATH=operator $(BIN)/mypy

bench: $(READY) ## Measure, as ratios in one run, and print the table
	$(BIN)/python -m tests.bench

bench-cluster: $(READY) ## Measure the platform on a real API server of its own, built with Go
	$(BIN)/python -m tests.bench.cluster

crds: $(READY) ## Write crds/, and the chart's copy of it, anew from the typed specs
	$(BIN)/tenantry crds --out crds
	$(BIN)/tenantry crds --out charts/tenantry/files/crds

lock: ## Write the image's locked requirements anew; needs uv
	$(LOCK) pyproject.toml -o requirements.lock
	echo 'hatchling>=1.27' | $(LOCK) - -o requirements-build.lock

image: ## Build the image of the operator, the api and the engines; needs docker
	docker build --tag $(IMAGE) .

kind-up: image ## Install the chart on a kind cluster of its own; needs docker, kind, helm and kubectl
	kind get clusters | grep -qx $(KIND) || kind create cluster --name $(KIND)
	kind load docker-image --name $(KIND) $(IMAGE)
	helm upgrade --install tenantry charts/tenantry --kube-context kind-$(KIND) \
	  --namespace tenantry-system --create-namespace --wait --timeout 5m
	kubectl --context kind-$(KIND) get pods --namespace tenantry-system

clean: ## Remove the virtual environment and the state of `make up`
	rm -rf $(VENV) .tenantry
