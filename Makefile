# A clean clone, Python 3.10 or newer and pip are enough: each target sets up what it needs in .venv.

PYTHON ?= python3
VENV ?= .venv
# Python compiles the modules that it imports, a quarter of what is installed; pip would compile all, on one core.
PIP_FLAGS ?= -q --disable-pip-version-check --no-compile
TORCH ?= torch==2.13.0
DEEPSPEED ?= deepspeed==0.19.8
# Neighbours run in the same process: they share originals, conversions and worker processes.
PYTEST_FLAGS ?= -n 2 --dist worksteal

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install $(PIP_FLAGS)

# One thread per process: tests and the demo start several, and more threads only wait for each other.
export OMP_NUM_THREADS ?= 1

.PHONY: help demo test suite browser lint docs format clean

help:
	@echo "make demo   convert a script, run it on one and on two processes, compare"
	@echo "make test   lint, type-check, run all tests"
	@echo "make lint   ruff and mypy only"
	@echo "make docs   the documentation site, in build/site"
	@echo "make browser  the page of reports in headless Chromium, which must be there"

demo: $(VENV)/.base
	@PATH="$(abspath $(BIN)):$$PATH" bash docs/demo.sh

# Tests wait here and there, which leaves time for the others; they end last.
test: $(VENV)/.full
	$(MAKE) -j3 lint docs suite

suite: $(VENV)/.full
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

# Apart from the tests: pip can't install a browser.
browser: $(VENV)/.lint
	$(BIN)/python -m pytest tests/codemod/report/in_browser.py

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The warning is about a later version of mkdocs.
docs: $(VENV)/.lint
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The package with torch. Building without isolation spares a second download of the build tools.
$(VENV)/.base: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 10) else "distify needs Python 3.10 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) "setuptools>=69" wheel numpy $(TORCH)
	$(PIP) --no-build-isolation -e .
	@touch $@

$(VENV)/.lint: $(VENV)/.base
	$(PIP) --no-build-isolation -e '.[dev]'
	@touch $@

# DeepSpeed's set-up imports torch, and its compiled operators are not needed here.
$(VENV)/.full: $(VENV)/.lint
	DS_BUILD_OPS=0 $(PIP) --no-build-isolation $(DEEPSPEED)
	@touch $@
