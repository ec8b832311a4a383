# Everything a newcomer needs: `make demo` and `make test` set up their own environment in .venv.
PYTHON ?= python3
VENV := .venv
SEED := $(shell date +%s)
TIMES := 20
TESTS := tests
LOCALCLUSTER_TESTS := tests/localcluster tests/contract tests/soak
# Three for two cores: a fifth of the time goes to tests that wait for another process.
PARALLEL := -n 3 --dist worksteal
BIN := $(VENV)/bin
# Tests start hundreds of processes, each of which would compile all modules again: twice the time of a short command.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo up test lint types layers unit test-core test-localcluster proof soak soak-lifecycle real-apiserver contract-real leadership-real real-cluster go-clients web-tools quality format crds rbac deploy metrics flags codes diagrams docs wheel clean

help:  ## Show what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "volcanoio needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(VENV) was not made: see above; then run make again"; exit 1; }

$(VENV)/.runtime: pyproject.toml | $(BIN)/python
	@echo "installing volcanoio into $(VENV) (once; half a minute or so)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.runtime
	@echo "installing what the tests need (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev
	@touch $@

demo: $(VENV)/.runtime  ## Run the example jobs on an embedded cluster
	@$(BIN)/volcanoio demo

up: $(VENV)/.runtime  ## Start an embedded cluster and keep it running
	@$(BIN)/volcanoio up

test: lint types layers unit  ## Everything CI runs

lint: $(VENV)/.dev  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev  ## mypy, strict
	$(BIN)/mypy

layers: $(VENV)/.dev  ## import-linter contracts
	$(BIN)/lint-imports

unit: $(VENV)/.dev  ## pytest
	$(BIN)/pytest $(PARALLEL) -q

test-core: $(VENV)/.dev  ## pytest without the tests of volcanoio/localcluster
	$(BIN)/pytest $(PARALLEL) -q $(addprefix --ignore=,$(LOCALCLUSTER_TESTS))

test-localcluster: $(VENV)/.dev  ## pytest, only the tests of volcanoio/localcluster
	$(BIN)/pytest $(PARALLEL) -q $(LOCALCLUSTER_TESTS)

proof: $(VENV)/.dev  ## Every property test on new random examples, 20 times as many (hours); SEED=n repeats a run
	@echo "property tests on new examples: make proof SEED=$(SEED) repeats this run"
	@VOLCANOIO_EXAMPLES=new VOLCANOIO_EXAMPLES_TIMES=$(TIMES) $(BIN)/pytest $(PARALLEL) -q --timeout=0 -m hypothesis \
		--hypothesis-seed=$(SEED) $(TESTS) || { echo "make proof SEED=$(SEED) repeats this failure"; exit 1; }

$(VENV)/.fuzz: pyproject.toml $(VENV)/.dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group fuzz
	@touch $@

soak: $(VENV)/.fuzz  ## 24 virtual hours of random clients and faults, 200 kills, 100,000 hostile inputs (CI does a short form)
	VOLCANOIO_SOAK_HOURS=24 VOLCANOIO_SOAK_SEEDS=1 VOLCANOIO_SOAK_KILLS=200 $(BIN)/pytest -q tests/soak
	VOLCANOIO_EXAMPLES=new VOLCANOIO_EXAMPLES_TIMES=60 $(BIN)/pytest -q --timeout 3600 tests/fuzz
	$(BIN)/python -m tests.fuzz.guided

soak-lifecycle: $(VENV)/.dev  ## 2,000 random lives of jobs in a whole world with accidents (minutes; CI does a short form)
	VOLCANOIO_EXAMPLES=new VOLCANOIO_SOAK_LIFECYCLE=2000 $(BIN)/pytest -q --timeout 3600 tests/stateful/test_lifecycle.py

real-apiserver:  ## Build etcd, kube-apiserver and kube-controller-manager (needs Go; once; minutes)
	@$(PYTHON) -m tests.realcluster.build

go-clients:  ## Build the Go clients and the Helm that the tests run (needs Go; once; minutes)
	@$(PYTHON) -m tests.goclient.building

web-tools:  ## Install playwright-core and the TypeScript compiler for the tests of the page (needs npm; once)
	@$(PYTHON) -m tests.webpage.tools

contract-real: $(VENV)/.dev  ## The contract tests against a real control plane, and our admission on it
	@$(BIN)/python -m tests.realcluster.contract
	@$(BIN)/python -m tests.realcluster.admission

leadership-real: $(VENV)/.dev  ## Two schedulers on a real control plane: stopped, killed and ended leaders (two minutes)
	@$(BIN)/python -m tests.realcluster.leadership --record

real-cluster: $(VENV)/.dev  ## The rendered deployments on a real control plane, with faults (root or user namespaces; minutes)
	@$(BIN)/python -m tests.realcluster.deployed --record

OPENB := $(TRACES)/openb
JOB_MIXES := $(TRACES)/jobs

quality: $(VENV)/.dev  ## Measure the committed scorecard again; fails where decisions got worse (needs TRACES=DIR; a quarter of an hour)
	@test -n "$(TRACES)" || { echo "give the directory of the traces: make quality TRACES=DIR (docs/quality.md)"; exit 2; }
	@$(BIN)/python -m bench.quality check $(OPENB) $(JOB_MIXES)

format: $(VENV)/.dev  ## Format the tree
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

crds: $(VENV)/.dev  ## Regenerate config/crds from volcanoio/model
	$(BIN)/python -m volcanoio.model.crds

rbac: $(VENV)/.runtime  ## Regenerate the roles in config/rbac from what the components declare
	@for component in scheduler controllers admission; do \
		$(BIN)/volcanoio config rbac $$component > config/rbac/$$component.yaml || exit 1; done

deploy: $(VENV)/.dev rbac  ## Regenerate config/deploy from config/helm/volcanoio (needs make go-clients)
	@$(BIN)/python -m tests.helmchart.rendering

metrics: $(VENV)/.dev  ## Regenerate the tables of docs/metrics.md from the catalogue of metrics
	$(BIN)/python -m tests.architecture.metrics_page

flags: $(VENV)/.dev  ## Regenerate the tables of docs/flags.md from the table of flags
	$(BIN)/python -m tests.architecture.flags_page

codes: $(VENV)/.dev  ## Regenerate the table of docs/reason-codes.md from the codes
	$(BIN)/python -m tests.architecture.codes_page

diagrams: $(VENV)/.dev  ## Draw the diagrams of docs/images again from the code's tables
	$(BIN)/python -m docs.site.diagrams

$(VENV)/.docs: pyproject.toml $(VENV)/.dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@

docs: $(VENV)/.docs  ## Build the documentation site in build/docs
	$(BIN)/python -m docs.site

wheel: $(VENV)/.dev  ## Build the wheel
	$(BIN)/python -m build --wheel --outdir dist

IMAGE := docker.io/volcanoio/volcanoio:$(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' volcanoio/__init__.py)
KIND := volcanoio

image:  ## Build the image of the components (needs Docker)
	docker build --file Containerfile --tag $(IMAGE) .

kind-up: $(VENV)/.runtime image  ## A cluster in Docker with this version installed (needs Docker, kind, kubectl)
	kind get clusters | grep -qx $(KIND) || kind create cluster --name $(KIND) --wait 2m
	kind load docker-image $(IMAGE) --name $(KIND)
	kind get kubeconfig --name $(KIND) > .kind-kubeconfig
	$(BIN)/volcanoio install --kubeconfig .kind-kubeconfig --image $(IMAGE)
	kubectl --kubeconfig .kind-kubeconfig --namespace volcano-system rollout restart deployment
	kubectl --kubeconfig .kind-kubeconfig --namespace volcano-system rollout status deployment --timeout 3m
	@echo "export KUBECONFIG=.kind-kubeconfig"

kind-down:  ## Remove that cluster
	kind delete cluster --name $(KIND)
	rm -f .kind-kubeconfig

clean:  ## Remove what the targets above made
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
