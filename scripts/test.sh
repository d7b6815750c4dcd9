#!/usr/bin/env bash
# Every test. Those that share a Spark session run one after the other; beside them, so that neither waits for the other, run those that
# need no Java and then those that start programs of their own.
#
# Tests without Spark see a JAVA_HOME that points nowhere, so that one which needs Java without saying so fails.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=.venv/bin/python
# Tests start many short-lived JVMs: code that is compiled once and quickly takes a third off their time.
export SPARK_SUBMIT_OPTS="${SPARK_SUBMIT_OPTS:--XX:TieredStopAtLevel=1}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

beside() {
    JAVA_HOME=/nonexistent "$python" -m pytest -m "not spark" -n "${JOBS:-1}" --quiet
    local without=$?
    "$python" -m pytest -m programs --durations=5
    local programs=$?
    [ "$without" -eq 0 ] && [ "$programs" -eq 0 ]
}

beside >"$log" 2>&1 &
job=$!
"$python" -m pytest -m "spark and not programs" --durations=15
with=$?
wait "$job"
others=$?
echo "Tests without Spark, and those that start programs:"
cat "$log"
[ "$with" -eq 0 ] && [ "$others" -eq 0 ]
