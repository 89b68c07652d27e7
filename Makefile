# Every target does its own set-up: `make setup` is quick when nothing has changed.
.DEFAULT_GOAL := help
.PHONY: help setup java demo test test-long check types style compiled-tests coverage test-clients test-apache-pulsar test-cluster test-matrix crash-test crash-spark power-cuts simulate soak fuzz bench screenshots dist docs tables proto format clean
BIN := .venv/bin
# Where Python is told not to write bytecode, each process of a suite compiles every test anew.
export PYTHONDONTWRITEBYTECODE :=
N ?= 20
RUNS ?= 20
TESTS ?= tests
SEEDS ?= 1..5000
MINUTES ?= 10
SESSIONS ?= 0
# Half of the workers begin with tests that keep a processor busy, the others with tests that wait; see tests/scheduling.py.
WORKERS := -n 4 --dist loadfile --no-loadscope-reorder

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 22

setup:  ## virtual environment and packages; leaves .venv/bin/spark-pulsar, and says what else is missing
	@.ci/setup

java:
	@.ci/setup java

demo:  ## real flights through the broker and Spark, in two minutes with its own set-up
	@.ci/setup demo
	@$(BIN)/python jobs/demo.py

check: setup  ## style, types, import contracts
	@$(MAKE) --no-print-directory -j 2 types style

types:
	$(BIN)/mypy
	MYPYPATH=jobs $(BIN)/mypy jobs/*.py
	MYPYPATH=.ci $(BIN)/mypy -p docs_tables
	MYPYPATH=benchmarks $(BIN)/mypy benchmarks/broker.py benchmarks/canary.py benchmarks/cursor.py benchmarks/delayed.py benchmarks/storage.py benchmarks/transactions.py benchmarks/report.py benchmarks/record benchmarks/load

style:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python .ci/import-contracts

# In a fresh clone each process of a suite would compile all tests; here one does, while mypy keeps the other core busy.
compiled-tests:
	@ls tests/__pycache__/conftest*pytest* >/dev/null 2>&1 || $(BIN)/python -m pytest --collect-only -q $(TESTS) >/dev/null || true

test: setup  ## the suite on our broker but its long forms; the tests of one rule: make test RULE=TTL-4
	@$(if $(RULE),:,.ci/setup java browser)
	@$(if $(RULE),:,$(MAKE) --no-print-directory -j 2 types style compiled-tests)
	$(BIN)/python -m pytest $(if $(RULE),--rule=$(RULE),-m "not long" $(WORKERS)) $(TESTS)

test-long: java  ## the long forms: every job by spark-submit, long simulations, power cuts, crash runs
	$(BIN)/python -m pytest -m long $(WORKERS) $(TESTS)

coverage: java  ## lines of the package that the suite runs, brokers and Spark's workers included (htmlcov/)
	$(BIN)/python -m pytest $(WORKERS) --cov --cov-report=term --cov-report=html $(TESTS)

# Which Apache Pulsar: VERSION of tests/apache_pulsar/start.py, else its first. A milestone is judged by Spark's suites alone.
VERSION ?=
SUITES_OF_APACHE_PULSAR := $(if $(findstring -M,$(VERSION)),,tests/conformance) tests/move tests/spark tests/security
test-apache-pulsar: export APACHE_PULSAR_VERSION := $(VERSION)
test-apache-pulsar:  ## the conformance and Spark suites on a real Apache Pulsar but their long forms (VERSION=4.2.4 TESTS=tests/security)
	@.ci/setup maven
	$(BIN)/python -m pytest -m "not long" -n 3 --dist loadfile --no-loadscope-reorder $(if $(filter tests,$(TESTS)),$(SUITES_OF_APACHE_PULSAR),$(TESTS)) --broker=apache-pulsar

test-clients:  ## Apache's own pulsar-admin, Go and Java clients on our broker and on a real Apache Pulsar
	@.ci/setup maven go
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/clients
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/clients --broker=apache-pulsar

test-cluster:  ## Spark on clusters of its own and of Apache Pulsar, every way to ship the package (TESTS=short: what CI runs)
	@.ci/setup maven
	$(BIN)/python -m pytest tests/cluster $(if $(filter short,$(TESTS)),-m "not long")

test-matrix: java  ## the wheel in environments of their own: Python 3.11 to 3.14, tests/spark on 4.0 to 4.3 (ROWS=short: what CI runs)
	$(BIN)/python -m tests.matrix $(ROWS)

crash-test: setup  ## N kills of a loaded broker (make crash-test N=200)
	CRASHES=$(N) $(BIN)/python -m pytest tests/fault/test_kill.py tests/fault/test_kill_once.py tests/fault/test_kill_transactions.py -s --timeout=0

crash-spark: java  ## RUNS copies of a topic that kill and refuse (make crash-spark RUNS=100 SEED=1 GUARANTEE=transactional)
	SPARK_CRASHES=$(RUNS) CRASH_SEED=$(SEED) GUARANTEE=$(GUARANTEE) $(BIN)/python -m pytest tests/spark/crashes -s --timeout=0

power-cuts: setup  ## N simulated power cuts of a loaded broker, recorded as it runs (make power-cuts N=50 SEED=1)
	CUTS=$(N) CUT_SEED=$(SEED) $(BIN)/python -m pytest tests/power_cuts -s --timeout=0

simulate: setup  ## histories of a broker in a world that goes wrong (make simulate SEEDS=1..5000, one: SEEDS=1234)
	$(BIN)/python -m tests.simulation $(SEEDS)

soak: setup  ## clients that come and go: resident memory and a canary's p99 (make soak MINUTES=10, or SESSIONS=200000)
	$(BIN)/python benchmarks/soak.py --minutes $(MINUTES) --sessions $(SESSIONS)

fuzz: setup  ## mutated frames and REST calls for MINUTES, beside a canary (make fuzz MINUTES=5 SEED=1234 ATTACK=17 TLS=1 AUTHORIZATION=1)
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --seed "$(SEED)" --attacks "$(ATTACK)" $(if $(TLS),--tls) $(if $(AUTHORIZATION),--authorization)

bench: setup  ## run the benchmarks and write docs/benchmarks.md's table (BENCH="showcase wire": rows with these words)
	@.ci/setup maven
	$(BIN)/python benchmarks/report.py $(BENCH)

screenshots: setup  ## pictures of the page and of Spark's UI for docs/images, in six minutes
	@.ci/setup browser
	$(BIN)/python -m tests.page.screenshots
	$(BIN)/python -m tests.page.spark_screenshots

dist: setup  ## what a tag publishes: the wheel, checked, in dist/; where Docker runs the broker's image, too
	@.ci/dist

docs: setup  ## the documentation site, strictly: build/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict -q -f .ci/mkdocs.yml
	@echo build/site/index.html

tables: setup  ## write the tables of docs/ that are made from the package, and conf/broker.conf
	$(BIN)/python .ci/tables

proto: setup  ## generate the protobuf module from wire/pulsar_api.proto
	$(BIN)/python .ci/proto

format: setup  ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove what the other targets made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse
