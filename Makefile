# Each line below is a command that you could type yourself.

PYTHON ?= python3
PIP_ARGS ?= $$($(BIN)/python tools/pip_args.py)
ARGS ?=
CHECK ?=
PDF ?=
WORKERS ?= 4

BIN := .venv/bin
STAMP := .venv/installed
BOOK := .venv/book-installed
SOAK := .venv/soak-installed
ETC := $(shell find etc -type f)
SPHINX := $(BIN)/python -m sphinx -E -q -W --keep-going

define LINT
$(BIN)/python -m ruff check .
$(BIN)/python -m ruff format --check .
$(BIN)/python -m nbqa --nbqa-process-cells px "ruff check --line-length 79" notebooks
endef
PYTEST := $(BIN)/python -m pytest -q -p no:cacheprovider -n $(WORKERS)

.PHONY: help venv lab doctor lint test quick soak rerun slides book handout bench clean

help: ## show this text
	@awk -F ': .*## ' '/^[a-z]+: .*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile
	@echo ""
	@echo "  PYTHON=python3.12      the Python (3.11 or newer) that .venv is made with"
	@echo "  PIP_ARGS='...'         arguments for pip install (see tools/pip_args.py)"
	@echo "  ARGS='...'             more arguments for pytest, tools/rerun.py, benchmarks"

venv: $(STAMP) ## set up .venv with the pinned packages

$(STAMP): requirements.txt pyproject.toml $(ETC)
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.version_info >= (3, 11) or sys.exit("This course needs Python 3.11 or newer, and " + sys.executable + " is Python " + v + ".\nName a newer one, for example: make venv PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install $(PIP_ARGS) -r requirements.txt
	$(BIN)/python -m pip install $(PIP_ARGS) --no-deps -e .
	$(BIN)/python tools/settings.py
	touch $(STAMP)

lab: $(STAMP) ## open JupyterLab in notebooks/
	cd notebooks && ../$(BIN)/python -m jupyterlab $(ARGS)

doctor: $(STAMP) ## look whether this machine can run the lessons; says what to do if not
	$(BIN)/python -m course_utils doctor $(ARGS)

lint: $(STAMP) ## run the linters, for modules and notebooks
	$(LINT)

test: $(STAMP) ## run every check and every test, all notebooks included
	$(LINT)
	$(PYTEST) $(ARGS)

quick: $(STAMP) ## run the linters, the tests that start no ranks, and lesson 1
	$(LINT)
	$(PYTEST) -m quick $(ARGS)

$(SOAK): $(STAMP) requirements-soak.txt
	$(BIN)/python -m pip install $(PIP_ARGS) -r requirements-soak.txt
	touch $(SOAK)

soak: $(SOAK) ## run what is long and rare: faults, other ways to run, built pages
	$(MAKE) slides book ARGS=
	$(PYTEST) -m soak $(ARGS)

rerun: $(STAMP) ## execute the notebooks and store their outputs; CHECK=1 only compares
	$(BIN)/python tools/rerun.py $(if $(filter-out 0,$(CHECK)),--check) $(ARGS)

handout: $(STAMP) ## write handout.zip: the lessons without outputs and solutions
	$(BIN)/python -m course_utils handout --force $(ARGS)

$(BOOK): $(STAMP) requirements-book.txt
	$(BIN)/python -m pip install $(PIP_ARGS) -r requirements-book.txt
	touch $(BOOK)

slides: $(BOOK) ## build the decks in build/slides, on live ranks; PDF=1 prints them
	$(BIN)/python tools/play.py $(ARGS)
	rm -rf build/slides
	$(SPHINX) -b revealjs slides build/slides
	$(if $(filter-out 0,$(PDF)),$(BIN)/python tools/print_decks.py)

book: $(BOOK) ## build README, lessons, solutions and API as a site in build/book
	rm -rf build/book
	$(SPHINX) -j 2 -c book . build/book

bench: $(STAMP) ## measure launch, %%px, concat, collectives, memory, watch, a hub, growth
	$(BIN)/python benchmarks/launch.py $(ARGS)
	$(BIN)/python benchmarks/px.py $(ARGS)
	$(BIN)/python benchmarks/concat.py $(ARGS)
	$(BIN)/python benchmarks/collectives.py $(ARGS)
	$(BIN)/python benchmarks/model.py $(ARGS)
	$(BIN)/python benchmarks/memory.py $(ARGS)
	$(BIN)/python benchmarks/hub.py $(ARGS)
	$(BIN)/python benchmarks/watched.py $(ARGS)
	$(BIN)/python benchmarks/growth.py $(ARGS)
	$(BIN)/python benchmarks/over_mpi.py $(ARGS)
	$(BIN)/python benchmarks/cable.py $(ARGS)

clean: ## remove .venv and caches
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build course_utils.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name .ipynb_checkpoints -type d -prune -exec rm -rf {} +
