# make demo | test | test-all | flink-test | lint | bench | docs: each makes .venv and installs what it needs; the second
# time that is quick. make flink-up and flink-down start and stop a Flink cluster of processes on this machine.

PYTHON ?= python3.11
VENV := .venv
PY := $(VENV)/bin/python
ROOMS := pipelines transforms solvers schemas policies

# numba's cache does not notice an edit in a kernel that another file's kernel calls, so each state of solvers/
# gets a cache of its own.
SOLVERS_STATE := $(shell find solvers -name '*.py' | LC_ALL=C sort | xargs cat | cksum | tr ' ' '-')
export NUMBA_CACHE_DIR := $(CURDIR)/.numba_cache/$(SOLVERS_STATE)

# Where bytecode is not to be written, every process would compile 5 s of sources; what is in .venv is ours to write.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-thorough kernels-for-tests lint bench docs notebooks proofs simulate fuzz clean flink-test flink-up flink-down lock beam-range-test

# From nothing each time: a run that other code began must not be resumed. Its kernels stand beside the sources, where
# kanonflow looks for them in a shell, which knows nothing of NUMBA_CACHE_DIR. What the README types next needs no others:
# the audit's are made, too. Those of other sources are thrown away first.
demo: $(VENV)/.installed-cli
	rm -rf demo-out
	@if [ "$$(cat .numba_cache/.beside 2>/dev/null)" != "$(SOLVERS_STATE)" ]; then \
	  find solvers pipelines -name '*.nb[ic]' -delete; mkdir -p .numba_cache; echo "$(SOLVERS_STATE)" > .numba_cache/.beside; \
	fi
	env -u NUMBA_CACHE_DIR $(VENV)/bin/kanonflow demo --output demo-out
	@env -u NUMBA_CACHE_DIR $(PY) -m kanonflow.pipelines.terminal.compile_notice

# test: what a change must pass before it is looked at, in minutes. test-thorough: what takes longer, and needs every
# variant of the kernels. With KANONFLOW_COMPILED_AHEAD=yes a test that compiles one fails (tests/conftest.py).
PYTEST_FLAGS ?= -n 2
test: lint $(NUMBA_CACHE_DIR)/.compiled
	$(PY) -m pytest $(PYTEST_FLAGS) -m "not cluster and not thorough"

# Pages are opened in Chromium, which must be there in CI (apt-get install chromium); elsewhere these tests are skipped.
test-thorough: $(VENV)/.installed-test $(NUMBA_CACHE_DIR)/.compiled-for-tests
	$(PY) -m pytest $(PYTEST_FLAGS) -m "not cluster and thorough"

# All kernels that tests call, for those that run side by side.
kernels-for-tests: $(VENV)/.installed-test $(NUMBA_CACHE_DIR)/.compiled-for-tests

# Everything that needs no cluster.
test-all: test test-thorough

# Java 17 and Maven are needed: real clusters and brokers, which the tests kill. One process, for they share a cluster.
flink-test: $(VENV)/.installed-test $(NUMBA_CACHE_DIR)/.compiled-for-tests
	$(PY) -m pytest tests/flink tests/kafka -m cluster $(FLINK_TEST_FLAGS)

# Both ends of the range of Beam in setup.py, each in an environment of its own, with what a pipeline of one's own needs:
# transforms on the local runners, Beam YAML, and whole runs of kanonflow anonymize. Clusters need the locked Beam
# (pipelines/options/beam_version.py). numba is the locked one: another would compile every kernel.
BEAM_LOWEST := $(shell sed -n 's/^BEAM = ">=\([0-9.]*\),.*/\1/p' setup.py)
NUMBA := $(shell sed -n 's/^\(numba==[0-9.]*\).*/\1/p' locks/test.lock)
BEAM_TESTS := tests/transforms/sinks/test_beam_rows.py tests/transforms/test_beam_manners.py \
  tests/transforms/test_anonymize.py tests/transforms/windows/test_solve_windows.py tests/pipelines/own_pipelines \
  tests/pipelines/test_cli.py tests/test_beam_document.py
beam-range-test: $(VENV)/.installed-test $(NUMBA_CACHE_DIR)/.compiled-for-tests
	$(call test_beam,lowest,apache-beam==$(BEAM_LOWEST).*)
	$(call test_beam,newest,apache-beam)

define test_beam
	$(VENV)/bin/uv venv --quiet --clear --python $(PYTHON) .beam/$(1)
	$(UV_INSTALL:$(PY)=.beam/$(1)/bin/python) '$(2)' '$(NUMBA)' --editable '.[cli,kafka,yaml]' \
	  'pytest>=8' 'pytest-timeout>=2' 'hypothesis>=6' 'polars>=1.10' 'pandas>=2.2,<3' 'duckdb>=1.1'
	.beam/$(1)/bin/python -c "import apache_beam; print('Beam', apache_beam.__version__)"
	.beam/$(1)/bin/python -m pytest $(BEAM_TESTS) -m "not cluster" $(BEAM_TEST_FLAGS)
endef

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

# The pages of docs/ and of the Python API, in site/, to be opened as files or served; neither needs a network.
docs: $(VENV)/.installed-test .mypy_root/kanonflow
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet
	@echo "site/index.html; with a search: $(PY) -m http.server --directory site --bind 127.0.0.1"

# What the notebooks of docs/notebooks print, written into them anew.
notebooks: $(VENV)/.installed-test $(NUMBA_CACHE_DIR)/.compiled
	$(PY) -m tests.executed_notebooks

# The theorem of cohorts that last, checked by Rocq (Coq) with MathComp, and its model as a program, in .proofs/; seconds.
# apt-get install coq libcoq-mathcomp-algebra ocaml-findlib
proofs:
	@command -v coqc > /dev/null || { echo "make proofs: coqc is missing (apt-get install coq libcoq-mathcomp-algebra ocaml-findlib)"; exit 2; }
	rm -rf .proofs
	cp -R proofs .proofs
	cd .proofs && for part in Promise Items Numbers Step Against Left Release Extract; do coqc -w -notation-overridden,-ambiguous-paths,-extraction -R . kanonflow $$part.v || exit 1; done
	cd .proofs && ocamlfind ocamlopt -w -a -O3 model.mli model.ml driver.ml -o model

# The world simulated: so many schedules of crashes, restarts and failing stores from one seed on, about .6 s of CPU each.
SCHEDULES ?= 200
SEED ?= 0
simulate: $(VENV)/.installed-test $(NUMBA_CACHE_DIR)/.compiled-for-tests
	$(PY) -m tests.simulation.simulate --schedules $(SCHEDULES) --seed $(SEED)

# What is read from outside, each reader under a coverage-guided fuzzer: an hour for all of them, or FUZZ_SECONDS. What was
# found lies in .fuzz/found. With FUZZ_FLAGS=--keep the corpus grows by what led through other code.
FUZZ_SECONDS ?= 3600
FUZZ ?=
fuzz: $(VENV)/.installed-test .fuzz/atheris
	PYTHONPATH=.fuzz nice $(PY) -m tests.fuzz.fuzz --seconds $(FUZZ_SECONDS) $(FUZZ_FLAGS) $(FUZZ)

.fuzz/atheris: locks/fuzz.lock | $(VENV)/.installed-test
	$(PIP_INSTALL) --no-deps --require-hashes --requirement locks/fuzz.lock --upgrade --target .fuzz
	touch $@

clean:
	rm -rf .fuzz .proofs demo-out site build dist .beam .numba_cache .mypy_root .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(PY):
	$(PYTHON) -m venv $(VENV)

# The versions that were tested, with the hashes of their files. They are those of Python 3.11 on Linux; elsewhere, and
# with UNLOCKED=yes, what setup.py allows is installed.
$(VENV)/.installed-cli: setup.py pyproject.toml locks/run.lock | $(PY)
	$(call install,run,$(RUN_EXTRAS))
	touch $@

$(VENV)/.installed-test: setup.py pyproject.toml locks/test.lock | $(PY)
	$(call install,test,test)
	touch $(VENV)/.installed-cli $@

RUN_EXTRAS := cli,kafka,report,xlsx
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check
LOCKS_FIT = $(PY) -c "import sys; sys.exit(sys.version_info[:2] != (3, 11) or sys.platform != 'linux')"
# uv installs what pip would, by the same hashes, in seconds; it asks the index that pip is set to. INSTALLER=pip does
# without it, and so does a machine on which it fails.
INSTALLER ?= uv
INDEX = $(shell $(PY) -m pip config get global.index-url 2>/dev/null || true)
UV_INSTALL = UV_SYSTEM_CERTS=true $(if $(or $(PIP_INDEX_URL),$(INDEX)),UV_DEFAULT_INDEX=$(or $(PIP_INDEX_URL),$(INDEX))) \
  $(VENV)/bin/uv pip install --quiet --python $(PY)
define install
	@if [ -z "$(UNLOCKED)" ] && $(LOCKS_FIT); then \
	  if [ "$(INSTALLER)" = uv ] && $(PIP_INSTALL) --require-hashes --requirement locks/installer.lock && \
	    $(UV_INSTALL) --require-hashes --requirement locks/$(1).lock && \
	    $(UV_INSTALL) --no-deps --no-build-isolation --editable .; then :; \
	  else \
	    if [ "$(INSTALLER)" = uv ]; then echo "uv did not install everything: pip does it, which takes minutes"; fi; \
	    $(PIP_INSTALL) --require-hashes --requirement locks/$(1).lock && \
	    $(PIP_INSTALL) --no-deps --no-build-isolation --editable .; \
	  fi; \
	else $(PIP_INSTALL) --editable '.[$(2)]'; fi
endef

# After a change of setup.py; LOCK_FLAGS=--upgrade takes newer versions of everything.
UV ?= uv
COMPILE_LOCK := $(UV) pip compile --quiet --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
  --generate-hashes --no-emit-find-links --no-annotate --custom-compile-command "make lock" $(LOCK_FLAGS)
LOCK := $(COMPILE_LOCK) setup.py locks/build.in
lock:
	$(COMPILE_LOCK) locks/installer.in --output-file locks/installer.lock
	$(COMPILE_LOCK) locks/fuzz.in --output-file locks/fuzz.lock
	$(LOCK) --extra cli --extra kafka --extra report --extra xlsx --output-file locks/run.lock
	$(LOCK) --extra gcp --extra kafka --output-file locks/dataflow.lock
	$(LOCK) --extra test --output-file locks/test.lock

# Once for each state of solvers/, by a process a core, ahead of everything else: or each of pytest's processes, and each
# of a cluster's workers, would do it. kanonflow itself compiles what a run needs and no cache holds.
$(NUMBA_CACHE_DIR)/.compiled: | $(VENV)/.installed-cli
	@$(PY) -m kanonflow.solvers.compile_kernels "classes ncp" merging "row_graph ncp"
	@$(PY) -m kanonflow.pipelines.audit.judge.load_kernels
	@touch $@

# With the variants for hierarchies and for rules of sensitive values: no test compiles them within its time limit.
$(NUMBA_CACHE_DIR)/.compiled-for-tests: | $(VENV)/.installed-cli
	@$(PY) -m kanonflow.solvers.compile_kernels
	@$(PY) -m kanonflow.pipelines.audit.judge.load_kernels
	@touch $(NUMBA_CACHE_DIR)/.compiled $@

# The list of kernels by which they are compiled in parallel; after a change of them. It compiles everything, serially.
.PHONY: kernel-list wheel wheel-test
kernel-list: $(VENV)/.installed-cli
	$(PY) -m deploy.wheel.record_kernels

# A wheel for this Python and numba that carries the kernels as machine code (decision 058). Ten minutes of two cores;
# with WHEEL_SETS='classes ncp,merging' it carries those of the default policies alone, in two. Files have the time of
# the commit, so that whoever builds it again from the same locks has the same bytes.
WHEEL_SETS ?=
COMMITTED := $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)
wheel: $(VENV)/.installed-cli
	rm -rf build dist
	$(PY) -m deploy.wheel.carry_kernels build/kernels/compiled $(if $(WHEEL_SETS),--sets '$(WHEEL_SETS)')
	SOURCE_DATE_EPOCH=$(COMMITTED) KANONFLOW_COMPILED=build/kernels/compiled $(PIP_INSTALL_WHEEL) --wheel-dir dist .
	@ls -l dist

PIP_INSTALL_WHEEL = $(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation
wheel-test: $(VENV)/.installed-test wheel
	KANONFLOW_WHEEL_SETS='$(WHEEL_SETS)' $(PY) -m pytest tests/wheel_checks.py

# mypy reads no package_dir: it gets a folder that looks as the package does once it is installed.
.mypy_root/kanonflow: Makefile
	rm -rf .mypy_root
	mkdir -p $@
	for room in $(ROOMS); do ln -s ../../$$room $@/$$room; done
	ln -s ../../pipelines/face/__init__.py $@/__init__.py
