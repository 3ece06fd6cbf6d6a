# Each target does its own set-up. Only Python 3.11 or newer, make and a package index are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Most of what is fetched is never imported: it is compiled when it is, not now.
PIP := $(BIN)/python -m pip --disable-pip-version-check install --no-compile
# Workers of the tests and processes that they start import the same files: what one of them has compiled is kept.
unexport PYTHONDONTWRITEBYTECODE
# What pip does takes minutes the first time: say so, and let it show its progress.
SAY = @echo "minidyn: installing $(1) into $(VENV); this is done once"

.PHONY: demo test test-long fuzz chaos test-offline test-versions dist check format bench docs clean
.DELETE_ON_ERROR:

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "minidyn needs Python 3.11 or newer; try: make PYTHON=python3.12 ...")'
	@echo "minidyn: making the environment $(VENV)"
	$(PYTHON) -m venv $(VENV)

# Stamps name the sets of packages; they are remade when pyproject.toml changes. A set that comes later names those before it,
# too: pip would otherwise replace what they need (moto's botocore is newer than that of s3fs).
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(call SAY,minidyn and what it needs (140 MB to fetch))
	@$(PIP) -e '.[mujoco]'
	@touch $@
$(VENV)/.installed-test: pyproject.toml $(VENV)/.installed
	$(call SAY,what the tests compare with)
	@$(PIP) -e '.[test]'
	@touch $@
$(VENV)/.installed-dev: pyproject.toml $(VENV)/.installed-test
	$(call SAY,linter and type checker)
	@$(PIP) -e '.[test,dev]'
	@touch $@
$(VENV)/.installed-peers: pyproject.toml $(VENV)/.installed-test
	$(call SAY,programs that read exported models (Drake, OpenUSD, FMPy) and a server of logs)
	@$(PIP) -e '.[test,peers]'
	@touch $@
$(VENV)/.installed-bench: pyproject.toml $(VENV)/.installed-test
	$(call SAY,libraries to measure against)
	@$(PIP) -e '.[test,bench]'
	@touch $@

demo: $(VENV)/.installed
	@$(BIN)/minidyn demo --output minidyn-out/demo

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n 2

test-long: $(VENV)/.installed-peers
	MINIDYN_TEST_LONG=1 $(BIN)/python -m pytest -n 2

# five minutes of mutated files; goes on where the last run ended
fuzz: $(VENV)/.installed-test
	$(BIN)/python tools/fuzz.py --seconds 300

# kill -9 at a thousand random moments, full disks, missing permissions, two processes at once
chaos: $(VENV)/.installed-test
	$(BIN)/python tools/chaos.py --kills 1000

# every Python that is here, and the lowest versions of libraries that pyproject.toml declares
# without any network but the loopback address (Linux, util-linux and iproute2)
test-offline: $(VENV)/.installed-test
	unshare --map-root-user --net sh -c 'ip link set lo up && $(BIN)/python -m pytest -n 2'

test-versions: $(BIN)/python
	$(BIN)/python tools/versions.py

# wheel and source archive, built twice and compared; a list of what they need
dist: $(VENV)/.installed-dev
	$(BIN)/python tools/dist.py

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/house.py --ratchet

format: $(VENV)/.installed-dev
	$(BIN)/python docs/make_equations.py
	$(BIN)/python docs/make_notices.py
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The documentation is in build/site/index.html."

bench: $(VENV)/.installed-bench
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build dist
