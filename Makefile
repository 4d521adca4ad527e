# Two commands: `make run` shows prgate doing its whole job, `make test` proves it.
SHELL := /bin/bash
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
# PyPI's torch for Linux x86-64 carries CUDA. Set pip's index to PyTorch's CPU wheels for a small download.
TORCH ?= torch==2.13.0
ARGS ?=
# Tests wait for other processes more than they compute: twice as many workers as cores pay.
WORKERS ?= 4
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check

.PHONY: help run test test-browser screenshots faults load check format docs release clean

help: ## Say what there is.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | column -t -s $$'\t'

run: $(VENV)/.installed ## Set everything up and watch prgate work (ARGS=--once ends after the replay).
	@$(VENV)/bin/prgate demo $(ARGS)

test: $(VENV)/.installed-dev ## Run the tests.
	@$(VENV)/bin/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

test-browser: $(VENV)/.installed-dev ## Run the tests of the pages in a real Chromium (Debian: apt install chromium).
	@command -v chromium chromium-browser google-chrome >/dev/null \
	  || { echo "prgate: no Chromium on PATH; install one (Debian: apt install chromium)" >&2; exit 3; }
	PRGATE_BROWSER_TESTS=1 $(VENV)/bin/python -m pytest tests/browser $(ARGS)

screenshots: $(VENV)/.installed-dev ## Take the documents' pictures of the pages anew.
	@PRGATE_BROWSER_TESTS=1 PRGATE_SCREENSHOTS=1 $(VENV)/bin/python -m pytest tests/browser/test_screenshots.py $(ARGS)

faults: $(VENV)/.installed-dev ## Kill, freeze, fill and cut off everything for half an hour; write the report.
	@nice $(VENV)/bin/python -m tests.faults.campaign --report deploy/docs/results/faults.json $(ARGS)

load: $(VENV)/.installed-dev ## Load the service beside a bare application; write the report (some ten minutes).
	@$(VENV)/bin/python -m tests.load --out deploy/docs/results/load.json $(ARGS)

check: $(VENV)/.installed-dev ## Lint, types and import contracts.
	@$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-cache

format: $(VENV)/.installed-dev ## Format the code.
	@$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

docs: $(VENV)/.installed-dev ## Write the reference from the code.
	@$(VENV)/bin/python -m bot.reference > deploy/docs/reference.md.new
	mv deploy/docs/reference.md.new deploy/docs/reference.md

release: $(VENV)/.installed-dev ## Build the wheel and tag the version of pyproject.toml.
	@$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	git tag "v$$($(VENV)/bin/prgate --version | cut -d' ' -f2)"

clean: ## Remove the virtual environment and build leftovers.
	@rm -rf $(VENV) build dist *.egg-info

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "prgate: Python 3.11 or newer is needed, $(PYTHON) is older; try make PYTHON=python3.12 …" >&2; exit 2; }
	command -v git >/dev/null || { echo "prgate: git is missing; install it and run make again" >&2; exit 3; }
	$(PYTHON) -m venv $(VENV) \
	  || { echo "prgate: $(PYTHON) cannot make a virtual environment (Debian: apt install python3-venv)" >&2; exit 3; }

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Setting up $(VENV) (once) …" >&2
	$(PIP) install --quiet -c constraints.txt '$(TORCH)' 'setuptools>=80' wheel \
	  && $(PIP) install --quiet -c constraints.txt --no-build-isolation -e '.[demo]' \
	  || { echo "prgate: set-up failed; pip's lines above say why (no network?); run make again to go on" >&2; exit 3; }
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@$(PIP) install --quiet -c constraints.txt --no-build-isolation -e '.[demo,dev]' \
	  || { echo "prgate: set-up of the tests failed; pip's lines above say why; run make again to go on" >&2; exit 3; }
	touch $@
