"""Spark's share of the work: sources, scalar expressions before the first exchange, exchanges, scheduling, sinks."""
