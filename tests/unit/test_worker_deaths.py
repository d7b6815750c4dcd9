"""How Spark says that a process of Python's is gone, in the words that it uses at each moment of that process's life."""

from __future__ import annotations

import pytest

from tidegate.runtime.jobs import worker_died

FRAME = "\n\tat org.apache.spark.api.python.PythonRunner$$anon$2.writeNextInputToStream(PythonRunner.scala:1)"

GONE = [
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
    "org.apache.spark.SparkException: EOFException occurred while reading the port number from pyspark.daemon's stdout.",
    "java.lang.IllegalStateException: Python daemon failed to launch worker with code -1",
    "org.apache.spark.SparkException: Python worker failed to connect back.",
    "java.io.IOException: Broken pipe" + FRAME,
    "java.net.SocketException: Connection reset" + FRAME,
    "java.io.IOException: Stream closed\n\tat java.base/java.lang.ProcessBuilder$NullOutputStream.write(ProcessBuilder.java:445)",
]

OTHERS = [
    "java.io.IOException: Broken pipe",
    "java.io.IOException: Stream closed\n\tat java.base/java.io.BufferedInputStream.getBufIfOpen(BufferedInputStream.java:168)",
    "java.io.EOFException: Unexpected end of input stream\n\tat org.apache.hadoop.io.compress.DecompressorStream",
    "org.apache.spark.SparkException: [DIVIDE_BY_ZERO] Division by zero." + FRAME,
]


@pytest.mark.parametrize("text", GONE)
def test_a_process_that_is_gone_is_noticed(text: str) -> None:
    assert worker_died(text)


@pytest.mark.parametrize("text", OTHERS)
def test_other_failures_are_not_taken_for_it(text: str) -> None:
    assert not worker_died(text)
