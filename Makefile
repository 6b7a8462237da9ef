# make demo | test | flink-test | lint | bench: each makes .venv and installs what it needs; the second time that is
# quick. make flink-up and flink-down start and stop a Flink cluster of processes on this machine.

PYTHON ?= python3.11
VENV := .venv
PY := $(VENV)/bin/python
ROOMS := pipelines transforms solvers schemas policies

# numba's cache does not notice an edit in a kernel that another file's kernel calls, so each state of solvers/
# gets a cache of its own.
SOLVERS_STATE := $(shell find solvers -name '*.py' | LC_ALL=C sort | xargs cat | cksum | tr ' ' '-')
export NUMBA_CACHE_DIR := $(CURDIR)/.numba_cache/$(SOLVERS_STATE)

.PHONY: demo test lint bench clean flink-test flink-up flink-down

# From nothing each time: a run that other code began must not be resumed.
demo: $(VENV)/.installed-cli $(NUMBA_CACHE_DIR)/.compiled
	rm -rf demo-out
	$(VENV)/bin/kanonflow demo --output demo-out

PYTEST_FLAGS ?= -n 2
test: lint $(NUMBA_CACHE_DIR)/.compiled
	$(PY) -m pytest $(PYTEST_FLAGS) -m "not cluster"

# Java 17 and Maven are needed: real clusters and brokers, which the tests kill. One process, for they share a cluster.
flink-test: $(VENV)/.installed-test $(NUMBA_CACHE_DIR)/.compiled
	$(PY) -m pytest tests/flink tests/kafka -m cluster $(FLINK_TEST_FLAGS)

FLINK_STATE ?= .flink
flink-up: $(VENV)/.installed-cli $(NUMBA_CACHE_DIR)/.compiled
	$(PY) -m deploy.flink.session up --state $(FLINK_STATE)
	@echo "send a job there: kanonflow stream ... \$$($(PY) -m deploy.flink.session flags --state $(FLINK_STATE))"

flink-down:
	$(PY) -m deploy.flink.session down --state $(FLINK_STATE)

lint: $(VENV)/.installed-test .mypy_root/kanonflow
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	MYPYPATH=.mypy_root $(VENV)/bin/mypy --explicit-package-bases --namespace-packages -p kanonflow

# make bench BENCH=adult_loss runs one of them; flags for it go into BENCH_FLAGS. The stream's takes half an hour and
# needs no data set: make bench BENCH=stream BENCH_FLAGS=replay (or soak).
BENCH ?= $(filter-out stream,$(patsubst benchmarks/%.py,%,$(shell grep -l '__main__' benchmarks/[a-z]*.py))) attacks
bench: $(VENV)/.installed-test $(NUMBA_CACHE_DIR)/.compiled
	@test -n "$$KANONFLOW_DATA" -o "$(BENCH)" = stream -o "$(BENCH)" = attacks || { echo "make bench: set KANONFLOW_DATA to the folder of the data sets"; exit 2; }
	@set -e; for name in $(BENCH); do echo "== $$name"; $(PY) -m benchmarks.$$name $(BENCH_FLAGS); done

clean:
	rm -rf demo-out build dist .numba_cache .mypy_root .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(PY):
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-cli: setup.py pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[cli,kafka]'
	touch $@

$(VENV)/.installed-test: setup.py pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $(VENV)/.installed-cli $@

# Ahead of everything else, or each of pytest's processes would do it.
$(NUMBA_CACHE_DIR)/.compiled: | $(VENV)/.installed-cli
	@echo "compiling the kernels in solvers/, once for each state of them (a minute or two)"
	@$(PY) -c "from kanonflow.solvers.warm_up import warm_up; warm_up()"
	@touch $@

# mypy reads no package_dir: it gets a folder that looks as the package does once it is installed.
.mypy_root/kanonflow: Makefile
	rm -rf .mypy_root
	mkdir -p $@
	for room in $(ROOMS); do ln -s ../../$$room $@/$$room; done
