# The two commands: `make serve` and `make test`. Each does all its own set-up; a second call starts at once.

PYTHON ?= python3
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin
export NO_MKDOCS_2_WARNING := 1
SAY := @printf '\n== %s\n'

.PHONY: help new-lesson serve test site browser check lint format types docs-test unit-test browser-test bench lock wheels chromium setup clean
.DEFAULT_GOAL := help

help: ## List the commands
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: setup browser ## Build the site and serve it with live reload
	$(SAY) "Serving: open http://127.0.0.1:$(PORT)/kv-cache/ (Ctrl-C stops)"
	@$(BIN)/mkdocs serve --livereload --dev-addr 127.0.0.1:$(PORT)

site: setup browser ## Build the site into site/
	$(SAY) "Building the site into site/"
	@$(BIN)/mkdocs build --clean

test: setup check site chromium ## Run every check and test: unit, docs, browser
	$(SAY) "Tests: package, docs, Pyodide under Node"
	@$(BIN)/python -m pytest --quiet --numprocesses 2 --dist loadfile --markdown-docs --doctest-modules --ignore tests/browser tests kvdocs docs README.md CONTRIBUTING.md
	$(SAY) "Tests: Chromium against the built site"
	@$(BIN)/python -m pytest --quiet --numprocesses 2 --dist loadfile --reruns 1 tests/browser

check: lint types ## Lint and check types, Python and TypeScript

lint: setup
	$(SAY) "Lint"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup
	$(SAY) "Types"
	@$(BIN)/mypy
	@npm run --silent check

format: setup ## Format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: setup site chromium ## Measure: prints tables, writes build/bench.json
	@$(BIN)/python -m bench

browser: setup ## Bundle the browser's files and make the memory snapshot
	$(SAY) "Browser files (bundle, Pyodide, memory snapshot)"
	@npm run --silent build

wheels: setup ## Fetch numpy's wheel for the browser into build/wheels (needs the open internet)
	@node overrides/runtime/wheels.mjs

chromium: setup ## Find a browser to drive, or install one
	@$(BIN)/python -m tests.browser.chromium

setup: $(VENV)/.installed node_modules/.installed ## Install Python and npm packages

$(VENV)/.installed: requirements/dev.txt pyproject.toml
	$(SAY) "Python packages into $(VENV) (a minute or two, once)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kvdocs needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another with: make PYTHON=python3.12 …")'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@touch $@

node_modules/.installed: package-lock.json
	$(SAY) "npm packages into node_modules"
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || { echo "Node 20 or newer is needed; install it from your system or nodejs.org" >&2; exit 1; }
	@npm ci --no-audit --no-fund
	@touch $@

lock: setup ## Renew the lock files (no registry address is written)
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --extra dev pyproject.toml --output-file requirements/dev.txt
	@npm install --package-lock-only --no-audit --no-fund

clean: ## Remove everything that was built or installed
	rm -rf $(VENV) node_modules build site .mypy_cache .pytest_cache .ruff_cache .hypothesis
