"""A Spark that is started once: by whoever needs it first, or ahead of time, while something else is done."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from pyspark.sql import SparkSession


class Starting:
    """The session that `make` gives. What it fails with is raised for all who wait, and the next one tries again."""

    def __init__(self, make: Callable[[], SparkSession]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._found: Future[SparkSession] | None = None
        self._tags = threading.local()
        self.awaited = 0
        """How many wait for it."""

    @property
    def is_ready(self) -> bool:
        found = self._found
        return found is not None and found.done()

    def begin(self) -> None:
        """Start in a thread of its own, unless somebody has. A program that ends meanwhile does not wait for it."""
        if (found := self._begun()) is not None:
            threading.Thread(target=self._run, args=(found,), name="tidegate-spark", daemon=True).start()

    def session(self) -> SparkSession:
        """The session; waits while it starts."""
        begun = self._begun()
        assert self._found is not None
        self.awaited += 1
        try:
            if begun is not None:
                self._run(begun)
            session = _awaited(self._found)
        finally:
            self.awaited -= 1
        if (tag := getattr(self._tags, "pending", None)) is not None:
            self._tags.pending = None
            # Without an interruption of its own thread, a task waits for its Python worker, which Spark then ends; otherwise it would go on.
            session.sparkContext.setInterruptOnCancel(False)
            session.sparkContext.addJobTag(tag)
        return session

    def tag(self, name: str) -> None:
        """Mark the jobs of this thread from now on, or from when Spark is there, so that they can be interrupted by this name."""
        self._tags.pending = name
        if self.is_ready:
            self.session()

    def interrupt(self, tag: str) -> None:
        """End the jobs with a tag, if there are any."""
        if self.is_ready:
            with suppress(Exception):  # a Spark that is gone has no jobs
                self.session().sparkContext.cancelJobsWithTag(tag)

    def _begun(self) -> Future[SparkSession] | None:
        """Where the session will be, if it is for the caller to make it."""
        with self._lock:
            if self._found is not None and not (self._found.done() and self._found.exception()):
                return None
            self._found = Future()
            return self._found

    def _run(self, found: Future[SparkSession]) -> None:
        try:
            found.set_result(self._make())
        except BaseException as problem:
            found.set_exception(problem)


def _awaited(found: Future[SparkSession]) -> SparkSession:
    """A result for a thread that can be interrupted meanwhile, as one that waits without end cannot."""
    while True:
        with suppress(TimeoutError):
            return found.result(0.2)
