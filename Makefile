# Each target says what it does: `make help` lists them.
.DEFAULT_GOAL := help
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# The stamps of an installation carry the content of what it is made from, so a checkout of other locks installs again.
READY := $(VENV)/.ready-$(shell cat pyproject.toml requirements-build.lock requirements-dev.lock | cksum | tr ' ' '-')
RUNS := $(VENV)/.runs-$(shell cat pyproject.toml requirements-build.lock requirements.lock | cksum | tr ' ' '-')
# An environment with the tools of development has what running needs.
RUNS := $(or $(wildcard $(READY)),$(RUNS))
IMAGE := tenantry:$(shell awk '/^appVersion:/ {print $$2}' charts/tenantry/Chart.yaml)
KIND ?= tenantry
# Tests wait more than they compute: two workers a core keep the cores busy.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(2 * os.cpu_count())')
LOCK = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
  --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'
# For a tier: TESTS=@FILE takes the ids of tests from a file, REPORT=FILE writes what became of each test, as lines of JSON.
TESTS ?= tests
PYTEST = $(BIN)/pytest $(if $(REPORT),--report-log=$(REPORT))

# Some machines forbid Python to keep what it compiles. Tests start hundreds of processes, and each would compile everything again.
export PYTHONDONTWRITEBYTECODE =
# Of `make shake` and `make bench-guard`.
export TIER SEED RECORD WHY ROWS

.PHONY: help ready up test slow campaigns cluster node processes shake lint types bench bench-guard bench-cluster bench-node cost screenshots docs release crds lock newest \
  image kind-up clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# uv installs in seconds what takes pip a minute. Where it cannot reach the index that pip is configured for, pip does it.
define tools
@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-build.lock
@# venv brings one that no lock names.
@$(BIN)/python -m pip uninstall --quiet --yes setuptools
endef
define project
@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable . || \
  $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
@rm -f $(VENV)/.runs* $(VENV)/.ready* && touch $@
endef

ifneq ($(RUNS),$(READY))
$(RUNS):
	@echo "Installing into $(VENV) what Tenantry needs to run, as requirements.lock says."
	$(tools)
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock || \
	  $(BIN)/python -m pip install --require-hashes -r requirements.lock
	$(project)
endif

$(READY):
	@echo "Installing into $(VENV) what Tenantry and its tests need, as requirements-dev.lock says."
	$(tools)
	@$(BIN)/uv pip sync --quiet --python $(BIN)/python --compile-bytecode --require-hashes requirements-dev.lock || \
	  $(BIN)/python -m pip install --require-hashes -r requirements-dev.lock
	$(project)

ready: $(READY) ## Install what tests and checks need

up: $(RUNS) ## Run examples/02 on this machine, at http://127.0.0.1:8080
	@echo "Starting the platform that examples/02-music-company declares. Ctrl-C ends it."
	@$(BIN)/tenantry up examples/02-music-company

test: $(READY) ## Run the fast tests
	$(PYTEST) -n $(WORKERS) --dist worksteal --timeout 300 -m 'not slow' $(TESTS)

slow: $(READY) ## Run the slow tier: kills, PostgreSQL, browsers, platforms
	$(PYTEST) -n $(WORKERS) --dist worksteal --timeout 900 -m 'slow and not campaign and not compared and not cluster and not node' $(TESTS)

campaigns: $(READY) ## Run the fault and attack campaigns; ROWS="R3 S8" runs only these
	$(BIN)/python -m tests.campaigns $(ROWS)

# Each worker has an API server of its own.
cluster: WORKERS := 4
cluster: $(READY) ## Run the tests on a real API server: yours, or one built with Go
	$(PYTEST) -n $(WORKERS) --dist loadfile --timeout 900 -m 'cluster and not processes' $(TESTS)

processes: $(READY) ## Run the operator and the api on an API server, and kill them
	$(PYTEST) -m processes $(TESTS)

node: $(READY) ## Run image, chart, upgrade and uninstallation on a node of its own
	$(PYTEST) --timeout 1800 -m node $(TESTS)

shake: $(READY) ## Run a tier in random order on busy cores; TIER=cluster, SEED=1
	@PYTHONPATH=. $(BIN)/python -m tests.ci.shake

lint: $(READY) types ## Check style, layers and types
	$(BIN)/ruff check operator tests
	$(BIN)/ruff format --check operator tests
	PYTHONPATH=operator $(BIN)/lint-imports

types: $(READY) ## Check types, strictly
	MYPYPATH=operator $(BIN)/mypy --num-workers 2

bench: $(READY) ## Measure, as ratios in one run, and print the table
	$(BIN)/python -m tests.bench

bench-guard: $(READY) ## Compare speed with docs/benchmarks.json; RECORD=10 writes it
	$(BIN)/python -m tests.bench.guard

bench-cluster: $(READY) ## Measure the platform on an API server that is built with Go
	$(BIN)/python -m tests.bench.cluster

bench-node: $(READY) ## Measure how engines of a real node wake
	$(BIN)/python -m tests.bench.node

cost: $(READY) ## Print what an environment costs in each placement
	$(BIN)/python -m tests.bench.cost

screenshots: $(READY) ## Take pictures of the console's pages, in build/; needs chromium
	$(BIN)/python -m tests.screens

docs: $(READY) ## Build the documentation that a platform serves at /docs/
	PYTHONPATH=. $(BIN)/python -m tests.docs.site

release: $(READY) ## Build all artifacts of a release from the newest commit, in dist/
	PYTHONPATH=.:operator $(BIN)/python -m tests.release

crds: $(READY) ## Write crds/, the lists of kinds and generated pages anew
	$(BIN)/tenantry crds --out crds
	$(BIN)/tenantry crds --out charts/tenantry/files/crds
	$(BIN)/python -m tenantry.cli.arguments.known_kinds
	PYTHONPATH=. $(BIN)/python -m tests.docs.app_yaml
	PYTHONPATH=. $(BIN)/python -m tests.docs.reasons
	PYTHONPATH=. $(BIN)/python -m tests.docs.kind_lists
	PYTHONPATH=. $(BIN)/python -m tests.docs.dashboards
	PYTHONPATH=. $(BIN)/python -m tests.docs.state_metrics

# The lock of development resolves everything at once, so that the image and `make up` run the versions that were tested.
lock: ## Write the locks anew, with the newest versions; needs uv
	$(LOCK) --upgrade --extra otel pyproject.toml --group dev --group build -o requirements-dev.lock
	$(LOCK) --upgrade --extra otel pyproject.toml -c requirements-dev.lock -o requirements.lock
	$(LOCK) --upgrade --group build -c requirements-dev.lock -o requirements-build.lock

newest: ## Run the fast and slow tiers with the newest of every package
	rm -rf .venv-newest && $(PYTHON) -m venv .venv-newest
	.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-newest/bin/uv pip install --quiet --python .venv-newest/bin/python --upgrade --editable '.[otel]' --group dev --group build
	.venv-newest/bin/pytest -n $(WORKERS) --dist worksteal --timeout 900 -m 'not campaign and not compared and not cluster and not node' tests

image: docs ## Build the image of all processes; needs docker
	docker build --tag $(IMAGE) .

kind-up: image ## Install the chart on kind; needs docker, kind, helm and kubectl
	kind get clusters | grep -qx $(KIND) || kind create cluster --name $(KIND)
	kind load docker-image --name $(KIND) $(IMAGE)
	helm upgrade --install tenantry charts/tenantry --kube-context kind-$(KIND) \
	  --namespace tenantry-system --create-namespace --wait --timeout 5m
	kubectl --context kind-$(KIND) get pods --namespace tenantry-system

clean: ## Remove the virtual environment and the state of `make up`
	rm -rf $(VENV) .venv-newest .tenantry
