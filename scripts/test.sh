#!/usr/bin/env bash
# Every test: what needs no Java runs beside what does, so that neither waits for the other.
#
# Tests without Spark see a JAVA_HOME that points nowhere, so that one which needs Java without saying so fails.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=.venv/bin/python
# Tests start many short-lived JVMs: code that is compiled once and quickly takes a third off their time.
export SPARK_SUBMIT_OPTS="${SPARK_SUBMIT_OPTS:--XX:TieredStopAtLevel=1}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

JAVA_HOME=/nonexistent "$python" -m pytest -m "not spark" -n "${JOBS:-1}" --quiet >"$log" 2>&1 &
beside=$!
"$python" -m pytest -m spark --durations=15
with=$?
wait "$beside"
without=$?
echo "Tests without Spark:"
cat "$log"
[ "$with" -eq 0 ] && [ "$without" -eq 0 ]
