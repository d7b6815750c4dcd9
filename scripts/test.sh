#!/usr/bin/env bash
# Every test, in two lines beside each other that take about as long, so that neither waits for the other. In one, the tests that share a
# Spark session and then the programs that are interrupted and killed; in the other, the tests that need no Java and then all other programs.
#
# Tests without Spark see a JAVA_HOME that points nowhere, so that one which needs Java without saying so fails.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=.venv/bin/python
# Tests start many short-lived JVMs: code that is compiled once and quickly takes a third off their time.
export SPARK_SUBMIT_OPTS="${SPARK_SUBMIT_OPTS:--XX:TieredStopAtLevel=1}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

killed=(tests/spark/test_crashes.py tests/spark/test_interrupt.py tests/spark/test_kills.py)

beside() {
    JAVA_HOME=/nonexistent "$python" -m pytest -m "not spark" -n "${JOBS:-1}" --quiet
    local without=$?
    "$python" -m pytest -m programs "${killed[@]/#/--ignore=}" --durations=5
    local programs=$?
    [ "$without" -eq 0 ] && [ "$programs" -eq 0 ]
}

beside >"$log" 2>&1 &
job=$!
"$python" -m pytest -m "spark and not programs" --durations=15
with=$?
"$python" -m pytest -m programs "${killed[@]}" --durations=5
killed_with=$?
wait "$job"
others=$?
echo "Tests without Spark, and those that start programs:"
cat "$log"
[ "$with" -eq 0 ] && [ "$killed_with" -eq 0 ] && [ "$others" -eq 0 ]
