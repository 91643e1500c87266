# sparkhaven: `make demo` shows it, `make test` proves it. `make help` lists the rest.
SHELL := /bin/bash
PYTHON ?= python3
DB ?= demo-db
KAFKA_DB ?= demo-kafka-db
LIVE_DB ?= demo-live-db
AIRFLOW_DB ?= demo-airflow-db
VENV := .venv
BIN := $(VENV)/bin
SITE := --fail-on-warning --keep-going -b html docs docs/_build
export PYSPARK_PYTHON := $(abspath $(BIN)/python)
unexport PYTHONDONTWRITEBYTECODE  # else every process that a test starts compiles our packages again
NATIVE := $(filter-out native/fuzz/%,$(wildcard native/*.[ch] native/*/*.[ch])) native/build.py
JAVA := $(shell find java -type f -name '*.java') $(wildcard java/META-INF/services/*) java/build.py
SOURCES := $(shell find sparkhaven pyspark_sparkhaven store ingest writers readers jobs conf -type f -not -path '*/__pycache__/*' -not -name '*.so' -not -name '*.jar') $(NATIVE) $(JAVA)
DOCS := $(VENV)/.docs-$(shell cksum < requirements/docs.txt | cut -d' ' -f1)
C_FILES := $(filter %.c %.h,$(NATIVE)) $(wildcard native/fuzz/*.[ch])
C_CHECKED := $(VENV)/.c-checked-$(shell cat requirements/check.txt .clang-format .clang-tidy native/compile_flags.txt $(C_FILES) | cksum | cut -d' ' -f1)
ZIG_LIBC = $(abspath $(wildcard $(VENV)/lib/python3*/site-packages/ziglang/lib/libc/include))
STAMP := $(VENV)/.ready-$(shell cat requirements/dev.txt pyproject.toml setup.py $(NATIVE) $(JAVA) | cksum | cut -d' ' -f1)
# A link into the cache: one environment for all checkouts with the same pins and Python.
AIRFLOW_VENV := .venv-airflow
DEEPHAVEN_VENV := .venv-deephaven
# "yes": there is room for the files of tests in memory. They are synced thousands of times, which no test measures.
MEMORY = $(if $(PYTEST_DEBUG_TEMPROOT),,$(shell [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -ge 4000000 ] 2>/dev/null && echo yes))
IN_MEMORY = $(if $(MEMORY),PYTEST_DEBUG_TEMPROOT=/dev/shm )
KEPT = -o tmp_path_retention_policy=failed
# of `make campaign`
HISTORIES ?= 10000
KILLS ?= 5000
FULL_DISKS ?= 2000
STATE ?= build/histories.json
# of `make test`: a third one gains nothing on two cores
WORKERS ?= 2
CACHE = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sparkhaven
define make-linked  # of requirements/$(1).txt; $(2): what is told of its size
	@set -e; made="$(CACHE)/$(1)-$$({ cat requirements/$(1).txt; $(PYTHON) -VV; } | sha256sum | cut -c1-12)"; \
	mkdir -p "$$(dirname "$$made")"; exec 9> "$$made.lock"; flock 9; \
	if [ ! -e "$$made/.ready" ]; then \
	  echo "setup-$(1): virtual environment in $$made ($(2))"; \
	  rm -rf "$$made"; $(PYTHON) -m venv --without-pip "$$made"; \
	  $(BIN)/pip --python "$$made/bin/python" install --quiet --disable-pip-version-check --no-deps --no-compile \
	    --only-binary :all: -r requirements/$(1).txt; \
	  touch "$$made/.ready"; \
	  $(BIN)/python -m tools.environments "$$made"; \
	fi; \
	touch "$$made/.ready"; \
	[ "$$(readlink .venv-$(1))" = "$$made" ] || { rm -rf .venv-$(1); ln -s "$$made" .venv-$(1); }
endef

.PHONY: help setup setup-airflow setup-deephaven setup-machine demo demo-kafka demo-live demo-airflow kafka cluster airflow test test-airflow test-deephaven test-fast test-python-reader test-versions check check-code check-site reference docs pages crash crash-results campaign campaign-results fuzz fuzz-full fuzz-decoders fuzz-parsers changelog power-cut power-cut-spark bench zip environment clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

setup: $(STAMP) ## virtual environment with pinned packages and the console script
	@$(BIN)/python -m sparkhaven.jobs.session.spark_session

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "sparkhaven needs Python 3.11 or later as $(PYTHON): install it, or call make with PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "sparkhaven needs Python's venv module: install python3-venv" >&2; exit 2; }
	@command -v java >/dev/null || [ -x "$$JAVA_HOME/bin/java" ] \
	  || { echo "sparkhaven needs a JDK 17 or later: install openjdk-17-jdk-headless, or set JAVA_HOME" >&2; exit 2; }
	@echo "setup: virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "setup: installing pinned packages (pyspark is 450 MB; the first time takes a minute or two)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@rm -f $(VENV)/.ready-* && touch $@
	@echo "setup: done. $(BIN)/sparkhaven class-archive halves the time in which Spark starts (half a minute, once)"

setup-airflow: $(STAMP) ## Airflow's own environment with pinned packages, made once for all checkouts
	$(call make-linked,airflow,200 MB; the first time takes a minute)

setup-deephaven: $(STAMP) ## the same for a Deephaven engine, which `sparkhaven serve` runs (see its licence: docs/howto/live.md)
	$(call make-linked,deephaven,600 MB; the first time takes a minute or two)

setup-machine: $(STAMP) ## Debian packages that some tests need (a browser, file systems, strace), with apt-get as root
	@$(BIN)/python -m tests.support.machine

demo: setup ## 336,776 real flights: feed files -> intraday -> history -> read back, then a crash
	@$(BIN)/python -m demo.flights --db $(DB)

demo-kafka: setup ## the same flights through a topic of a real Kafka broker, with a kill in between
	@$(BIN)/python -m demo.kafka_demo --db $(KAFKA_DB)

demo-live: setup setup-deephaven ## trades through a broker and a Spark stream into a ticking Deephaven engine, with a picture of its grid
	@$(BIN)/python -m demo.live.run --db $(LIVE_DB)

demo-airflow: setup setup-airflow ## one night of the flights in a real Airflow: ingest, merge, validate, truncate, delete
	@$(BIN)/python -m demo.nights --db $(AIRFLOW_DB)

airflow: setup setup-airflow ## Airflow on 127.0.0.1:8080 with the flights and all DAGs, until Ctrl-C
	@$(BIN)/python -m demo.nights --db $(AIRFLOW_DB) --serve

kafka: setup ## a Kafka broker on 127.0.0.1:9092 with the flights in a topic, until Ctrl-C
	@$(BIN)/python -m tests.support.servers.broker

cluster: setup ## a standalone Spark cluster on loopback, a master and two workers, until Ctrl-C
	@$(BIN)/python -m tests.support.servers.cluster

test: setup setup-airflow setup-deephaven ## every test, with the slowest at the end; SPARKHAVEN_EXAMPLES=1 for all examples of property tests and all campaigns
	@$(BIN)/python -m tests.support.machine || true # what cannot be installed here is skipped, with its reason
	$(IN_MEMORY)SPARKHAVEN_EXAMPLES=$${SPARKHAVEN_EXAMPLES:-0.1} $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=25 \
	  $(if $(MEMORY),$(KEPT))

test-airflow: setup setup-airflow ## the tests of the DAGs in a real Airflow; `make test` runs them too
	$(BIN)/python -m pytest -q tests/dags

test-deephaven: setup setup-deephaven ## the tests of `serve` with a real engine; `make test` runs them too
	$(BIN)/python -m pytest -q tests/deephaven

test-python-reader: setup ## tests/spark with Python as the reader of batches; `make test` reads by Java where a test does not choose
	SPARKHAVEN_TEST_READER=python $(BIN)/python -m pytest -q -n 2 --dist loadfile tests/spark

test-fast: setup ## quick tests without a JVM, with fewer examples; their files are kept in memory where that is offered
	$(IN_MEMORY)SPARKHAVEN_EXAMPLES=0.1 $(BIN)/python -m pytest -q -n auto $(KEPT) -m "not jvm and not spark and not kafka and not airflow and not deephaven and not browser and not slow"

check: check-code check-site ## format, lint, types, import rules, words, names, the C core, the documentation and its links

check-code: $(STAMP) $(C_CHECKED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m native.abi --check
	$(BIN)/python -m tools.docs.pages --check
	$(BIN)/python -m tools.docs.words
	$(BIN)/python -m tools.code.names

check-site: $(STAMP) $(DOCS) # beside the others where make has two jobs
	$(BIN)/sphinx-build $(SITE) -q

reference: $(STAMP) ## what is made from the code: parts of the pages, and store/native/abi.py from the C headers
	@$(BIN)/python -m native.abi
	@$(BIN)/python -m tools.docs.pages

docs: $(STAMP) $(DOCS) ## the documentation as a site, in docs/_build
	@$(BIN)/sphinx-build $(SITE) -q
	@echo "docs/_build/index.html"

$(DOCS): requirements/docs.txt | $(STAMP)
	@echo "docs: installing Sphinx"
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements/docs.txt
	@rm -f $(VENV)/.docs-* && touch $@

$(C_CHECKED): | $(STAMP) $(DOCS) # after a change of the C files; the headers of Zig's libc, so that every machine looks at the same
	@echo "check: format and lint of native/ (half a minute after a change)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements/check.txt
	@$(BIN)/clang-format --dry-run -Werror $(C_FILES)
	@printf '%s\n' $(filter %.c,$(NATIVE)) | xargs -P 2 -n 5 $(BIN)/clang-tidy --quiet --extra-arg=--target=x86_64-linux-gnu --extra-arg=-nostdlibinc \
	  $(foreach d,x86-linux-gnu generic-glibc x86-linux-any any-linux-any,--extra-arg=-isystem$(ZIG_LIBC)/$(d)) 2> $@.err \
	  || { cat $@.err >&2; exit 1; }
	@rm -f $(VENV)/.c-checked-* && touch $@

pages: setup ## the sessions of all pages, run and compared; `make test` runs README's
	SPARKHAVEN_ALL_PAGES=1 $(BIN)/python -m pytest -q tests/e2e/test_pages.py

test-versions: setup ## every release of Spark, Python and JDK that this machine has; writes docs/reference/versions.md (an hour)
	$(BIN)/python -m tests.versions.matrix

crash: setup ## the full crash campaign, written to docs/evidence/crash-results.md: every step, every call, 550 kills, power cuts (hours)
	$(BIN)/python -m tests.crash.results --full --rounds 40 --beside

fuzz: setup ## the compiled core against mutated input, with sanitizers (minutes)
	$(BIN)/python -m native.fuzz.run

fuzz-full: setup ## the same with 100 million inputs (hours)
	$(BIN)/python -m native.fuzz.run --total 100_000_000

fuzz-decoders: setup ## every decoder against 200,000 mutated records each (minutes); the last line is the verdict
	$(BIN)/python -m tests.support.ingest.fuzz_decoders

fuzz-parsers: setup ## every parser of files against 200,000 inputs each, guided by coverage (Atheris; minutes)
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements/fuzz.txt
	$(BIN)/python -m tests.support.fuzzing.run

power-cut: setup ## the power of ext4 and xfs images is cut under a running writer (needs root, xfsprogs)
	$(BIN)/python -m tests.crash.disk.power_cuts --rounds 40
	$(BIN)/python -m tests.crash.disk.quarantine_cuts --rounds 40

power-cut-spark: setup ## the same under Spark jobs: our streams, deephaven_writer, Spark's Parquet sink, Delta
	$(BIN)/python -m tests.crash.spark.power_cuts --rounds 5

campaign: setup ## random histories against a model, HISTORIES, KILLS and FULL_DISKS of them; goes on where the last run ended (STATE)
	$(if $(MEMORY),TMPDIR=/dev/shm )$(BIN)/python -m tests.crash.histories.campaign --state $(STATE) \
	  --histories $(HISTORIES) --kills $(KILLS) --full-disks $(FULL_DISKS) --spark

campaign-results: setup ## docs/evidence/histories.md: what `make campaign` has run (STATE), and each past fault put back (an hour)
	$(BIN)/python -m tests.crash.histories.campaign --state $(STATE) --minutes 0 --page
	$(BIN)/python -m tests.crash.histories.put_back

crash-results: setup ## docs/evidence/crash-results.md written anew (minutes)
	$(BIN)/python -m tests.crash.results

bench: setup ## all benchmarks, each a table of ratios (long)
	@set -e; for b in benchmarks/*.py benchmarks/parts/[a-z]*.py benchmarks/feeds; do m=$${b%.py}; echo "== $$m"; $(BIN)/python -m $${m//\//.}; done

changelog: $(STAMP) ## the files of changes/ as a section of CHANGELOG.md: make changelog VERSION=X.Y.Z
	@$(BIN)/python -m tools.docs.changelog $(or $(VERSION),$(error VERSION is missing: make changelog VERSION=X.Y.Z))

zip: sparkhaven.zip ## packages for spark-submit --py-files

sparkhaven.zip: $(SOURCES) | $(STAMP)
	@$(BIN)/python -m sparkhaven.jobs.session.submit_zip $@
	@echo "$@: $$(du -h $@ | cut -f1)"

environment: environment.tar.gz ## a Python environment for the workers of a cluster, for spark-submit --archives

environment.tar.gz: requirements/run.txt pyproject.toml setup.py $(SOURCES) | $(STAMP)
	@rm -rf build/environment build/wheel build/lib build/bdist.* && $(PYTHON) -m venv build/environment
	@grep -vE '^(pyspark|py4j)==' requirements/run.txt > build/environment/packages.txt # the cluster has its own
	@build/environment/bin/pip install --quiet --disable-pip-version-check --no-deps -r build/environment/packages.txt venv-pack==0.2.0
	@$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir build/wheel .
	@build/environment/bin/pip install --quiet --disable-pip-version-check --no-deps build/wheel/*.whl
	@build/environment/bin/venv-pack --quiet --force --compress-level 1 --prefix build/environment --output $@
	@echo "$@: $$(du -h $@ | cut -f1), for workers with $$(readlink -f build/environment/bin/python)"

clean: ## removes the environment, the demo database and caches
	rm -rf $(VENV) $(AIRFLOW_VENV) $(DEEPHAVEN_VENV) $(DB) $(KAFKA_DB) $(LIVE_DB) $(AIRFLOW_DB) sparkhaven.zip environment.tar.gz build docs/_build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
