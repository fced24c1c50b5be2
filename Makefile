# One entry for everything. `make help` lists the targets; `make test` is what CI calls.
#
# PYTHON=path uses that interpreter as it is and sets nothing up.

VENV := .venv
ifdef PYTHON
READY :=
else
PYTHON := $(VENV)/bin/python
READY := $(VENV)/.ready
endif

# One BLAS thread each: the suite runs one process per core.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
# Some environments forbid compiled sources; the tests start hundreds of processes that need them.
export PYTHONDONTWRITEBYTECODE :=
JOBS ?= 2
# Optional peers to install with the development tools; CI adds them all.
EXTRAS ?= dev
PYTEST := $(PYTHON) -m pytest -p tools.roads -n $(JOBS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup demo check types rooms test full fuzz-hour docs clean

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## create .venv and install Iron with its development tools

$(VENV)/.ready: pyproject.toml
	@python3 tools/check_python.py
	python3 -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --editable '.[$(EXTRAS)]'
	@touch $@

demo: build/.checked  ## check the kernels on this CPU; a small model answers, its speed beside llama.cpp's
	$(PYTHON) -m examples.smollm2
	$(PYTHON) -m benches.smollm2 256 64 3

build/.checked: $(READY) $(shell find iron -name '*.py')
	$(PYTHON) -m iron test --backend cpu
	@mkdir -p build && touch $@

check: $(READY)  ## lint, types, rooms, layers and pages; seconds
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	@$(MAKE) --no-print-directory -j2 -Otarget types rooms PYTHON=$(PYTHON)

# Pyright on what may have changed; `tools/check_types.py --all` for all of it.
types:
	$(PYTHON) tools/check_types.py

rooms:
	$(PYTHON) -m pytest tests/unit/test_rooms.py tests/unit/test_layers.py tests/unit/report \
	  tests/docs/test_pages.py::test_page_is_well_formed -k 'not browser'

test: $(READY)  ## the whole suite; fails over budget, names what it did not run
	$(PYTEST)

full: $(READY)  ## the suite and the slow tests
	$(PYTEST) --full

fuzz-hour: $(READY)  ## 10,000 random programs and 2,000 random sources, bit for bit
	$(PYTHON) -m iron.check.generate fuzz 0 10000
	$(PYTHON) -m tests.property.source_programs 0 2000 build/fuzz cpu

docs: $(READY)  ## run every example of the README and of docs/
	$(PYTHON) -m pytest tests/docs

clean:  ## remove what the tools and the build leave behind; keeps .venv
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis iron-crash
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
