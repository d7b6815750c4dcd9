# `make help` lists the targets. Each of them first makes sure that .venv is there and current.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help run test servers check-docs package test-nexmark style check format fuzz bench bench-engine bench-peers lock clean venv

PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest
# Extra arguments for the program or for pytest: make test ARGS="tests/spark -k join"
ARGS ?=
# Test processes; each that meets Spark starts its own JVM, so more than one is worth it only with memory to spare.
JOBS ?= 0
# Events of the NEXMark comparison, and the page that benchmarks write their sections into.
EVENTS ?= 1M
PAGE ?= docs/performance.md

# Spark in local mode needs no network, and must not depend on how the machine names itself.
export SPARK_LOCAL_IP ?= 127.0.0.1
export SPARK_LOCAL_HOSTNAME ?= localhost

# Runs what follows with the Java that setup.sh found, or stops with its advice.
WITH_JAVA = java_home=$$(scripts/setup.sh java) && JAVA_HOME=$$java_home

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: venv ## the demonstration
	@$(WITH_JAVA) $(PYTHON) -m tidegate demo $(ARGS)

test: venv ## every test, Spark included (some: ARGS="tests/spark -k join")
ifneq ($(strip $(ARGS)),)
	@$(WITH_JAVA) $(PYTEST) -n $(JOBS) $(ARGS)
else
	@$(WITH_JAVA) scripts/test.sh
endif

servers: ## what tests of connectors start: brokers, databases, object stores (without them these tests are skipped)
	@for script in scripts/servers/*.sh; do [ ! -e "$$script" ] || "$$script" || exit 1; done

check-docs: venv ## every page, example and the first hour of a new user
	@$(WITH_JAVA) SPARK_SUBMIT_OPTS=-XX:TieredStopAtLevel=1 $(PYTEST) tests/unit/test_docs.py tests/spark/test_guides.py \
		tests/spark/test_examples.py tests/spark/test_example_tasks.py tests/newcomer $(ARGS)

package: venv ## wheel and sdist in dist/, tried in an empty environment
	@$(WITH_JAVA) $(PYTHON) scripts/package.py

test-nexmark: venv ## every NEXMark answer on 100,000 events (SIZE=...), recorded and live: ten minutes
	@$(WITH_JAVA) TIDEGATE_NEXMARK_EVENTS=$(or $(SIZE),100000) $(PYTEST) tests/nexmark

style: venv ## style and types
	@$(PYTHON) -m ruff check --quiet .
	@$(PYTHON) -m ruff format --quiet --check . || { echo "error: run 'make format'" >&2; exit 1; }
	@$(PYTHON) -m mypy --strict tidegate

# JAVA_HOME points nowhere, so that a test which needs Java without saying so fails here.
check: style ## style, types, doctests and the tests that need no Java and are quick
	@JAVA_HOME=/nonexistent $(PYTEST) --quiet -n 2 --ignore=tests/spark -m "not spark and not volume" $(ARGS)

format: venv ## lay out the code and sort its imports
	@$(PYTHON) -m ruff check --quiet --select I --fix .
	@$(PYTHON) -m ruff format --quiet .

fuzz: venv ## the property tests, with many fresh random examples (EXAMPLES=2000)
	@$(WITH_JAVA) HYPOTHESIS_PROFILE=fuzz EXAMPLES=$(or $(EXAMPLES),2000) TIDEGATE_FUZZ_PAIRS=$(or $(PAIRS),20000) \
		TIDEGATE_FUZZ_CASES=$(or $(CASES),5000) TIDEGATE_RULE_CASES=$(or $(COMPOSED),130) TIDEGATE_FUZZ_SEED=$(or $(SEED),1000000) \
		TIDEGATE_ENGINE_ROUNDS=$(or $(ROUNDS),20) TIDEGATE_KILLS=$(or $(KILLS),300) TIDEGATE_CLUSTER_ROUNDS=$(or $(CLUSTER),15) \
		TIDEGATE_DAMAGES=$(or $(DAMAGES),5000) TIDEGATE_DAMAGED_RESTARTS=$(or $(RESTARTS),100) \
		TIDEGATE_MIGRATIONS=$(or $(MIGRATIONS),400) TIDEGATE_TPCH_ORDERS=$(or $(ORDERS),4000) TIDEGATE_INPUT_CASES=$(or $(FILES),2000) TIDEGATE_GRAPH_EPOCHS=$(or $(EPOCHS),500) $(PYTEST) tests/fuzz tests/optimizer tests/tpch tests/spark/test_engine_against_reference.py \
		tests/spark/test_changing_graph.py tests/spark/test_quality.py tests/cluster/test_generated.py \
		tests/spark/test_crashes.py tests/spark/test_kills.py tests/spark/test_damage.py tests/spark/test_input_fuzz.py $(ARGS)

bench: venv ## all benchmarks, into docs/performance.md (one: ARGS="nexmark --queries q1,q5 --events 10M --engines tidegate,flink")
ifneq ($(strip $(ARGS)),)
	@$(WITH_JAVA) $(PYTHON) -m tidegate bench $(ARGS)
else
	@echo "1 of 4: NEXMark beside other engines (Flink only after make bench-peers)"
	@$(WITH_JAVA) $(PYTHON) -m tidegate bench nexmark --events $(EVENTS) --page $(PAGE) \
		--engines tidegate,$$([ -x build/peers/flink/bin/python ] && echo flink,)spark,duckdb
	@echo "2 of 4: growth with windows, keys, rates and queries"
	@$(WITH_JAVA) $(PYTHON) -m tidegate bench growth --page $(PAGE)
	@echo "3 of 4: live delay up to saturation"
	@$(WITH_JAVA) $(PYTHON) -m tidegate bench live --page $(PAGE)
	@echo "4 of 4: the engine: kernels, recorded runs, live epochs, a soak"
	@$(MAKE) --no-print-directory bench-engine
endif

bench-engine: venv ## recorded runs, live epochs, keyed updates and a soak of some minutes
	@for bench in kernel_aggregates keyed_updates many_queries engine_recorded band_join engine_live engine_soak; do \
		echo "$$bench"; $(WITH_JAVA) $(PYTHON) benchmarks/$$bench.py || exit 1; done
	@echo "tpch"; $(WITH_JAVA) $(PYTHON) -m benchmarks.tpch

bench-peers: venv ## the engines that benchmarks compare with, in environments of their own below build/peers
	@$(WITH_JAVA) $(PYTHON) benchmarks/nexmark_peers.py

lock: ## pin the newest allowed packages (needs uv)
	@scripts/lock.sh

clean: ## remove all that make has made
	@rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@rm -rf spark-warehouse metastore_db derby.log .coverage
	@find tidegate tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

venv:
	@scripts/setup.sh venv
