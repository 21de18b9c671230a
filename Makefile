# Every target does its own set-up: prerequisites first, then .venv, then the job.
VENV ?= .venv
PY := $(VENV)/bin/python
PYTEST := $(PY) -m pytest

# Pulumi programs are scripts in folders of their own, not modules of a package.
PROGRAMS := $(patsubst %/,%,$(sort $(dir $(wildcard stacks/*.py examples/*/*.py))))
MYPY_PROGRAM := $(PY) -m mypy --no-explicit-package-bases --no-namespace-packages

# No target reads the clusters or logins of the person who runs it. Only GPUSTACK_CLUSTER=<context>
# lets the demo use a real cluster; it prints the name first.
ALONE := env -u KUBERNETES_SERVICE_HOST -u KUBERNETES_SERVICE_PORT \
	-u PULUMI_ACCESS_TOKEN -u PULUMI_BACKEND_URL -u PULUMI_STACK -u PULUMI_HOME \
	KUBECONFIG=$(CURDIR)/$(VENV)/no-kubeconfig

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup setup-go demo test check static quick covered core ci mutants nightly lint format typecheck contracts \
	whitespace generate lock build clean-cache

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup-go ## a prefill/decode deployment, edited and replaced on a real control plane
	@$(if $(GPUSTACK_CLUSTER),,$(ALONE)) $(PY) examples/prefill-decode/demo.py

test: setup-go lint typecheck contracts whitespace build covered ## everything that a change must pass: check and core

check: setup ## lint, types, import contracts, quick tests, side by side: under a minute
	@mkdir -p .reports
	@$(MAKE) --no-print-directory static >.reports/static.txt 2>&1 & static=$$!; \
	$(MAKE) --no-print-directory quick; quick=$$?; \
	wait $$static; static=$$?; cat .reports/static.txt; exit $$((quick | static))

static: setup lint typecheck contracts whitespace

quick: setup
	@$(ALONE) $(PYTEST) -m check

covered: setup build
	@$(ALONE) $(PYTEST) -m "check or core" --cov --cov-report=term

core: setup-go build ## the tests on the sandbox and with real programs
	@$(ALONE) $(PYTEST) -m core

ci: setup-go build ## the longer tests of every submission
	@$(ALONE) scripts/pytest_allowing_none $(PY) -m ci

mutants: setup ## switch each rule off by name and show the test that goes red
	@$(PY) scripts/mutants.py

nightly: setup-go build ## every tier, soaks and sweeps too; writes docs/reference/nightly.md
	@$(ALONE) $(PY) scripts/nightly.py

lint: setup ## ruff: rules and format
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

format: setup ## let ruff write what it can
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

typecheck: setup ## mypy, strict
	@$(PY) -m mypy
	@for folder in $(PROGRAMS); do $(MYPY_PROGRAM) $$folder/*.py || exit 1; done

contracts: setup ## who may import whom
	@$(VENV)/bin/lint-imports --no-logo

whitespace: setup # against the empty tree, so that committed lines count too
	@git diff --check $$(git hash-object -t tree /dev/null)

generate: setup ## write what is generated: the picture, reference pages
	@$(PY) scripts/generate.py

lock: setup ## resolve the pins of requirements.lock anew
	@$(PY) scripts/lock.py

build: setup-go ## build the sandbox's control plane once
	@$(ALONE) $(PY) -m gpustack_deploy.cli sandbox build

clean-cache: setup ## remove the built control plane and interrupted builds
	@$(PY) -m gpustack_deploy.cli sandbox clean-cache

setup:
	@VENV=$(VENV) scripts/setup

setup-go:
	@VENV=$(VENV) scripts/setup --go
