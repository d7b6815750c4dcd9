"""What is shown while something is done: that Spark starts, how far a run has come, and after Ctrl-C that it is stopped."""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from tidegate.terminal.answers import console

if TYPE_CHECKING:
    from tidegate.session import Session

Report = Callable[[float], None]
T = TypeVar("T")

PATIENCE = 10.0
"""Seconds that a statement has to end after Ctrl-C, before it is left to itself."""
AGAIN = 0.3
"""Seconds after which it is told again."""

_numbers = itertools.count(1)


class _What(ProgressColumn):
    """What is done; or that somebody waits for a Spark that starts."""

    def __init__(self, session: Session | None) -> None:
        super().__init__()
        self._session = session

    def render(self, task: Task) -> Text:
        waits = self._session is not None and self._session.starting.awaited
        return Text("starting Spark" if waits else task.description)


@contextmanager
def progress_bar(what: str, rows: int = 0, session: Session | None = None) -> Iterator[Report]:
    """A bar for the part that is done; with the number of `rows` it also shows rows per second, with a session whether its Spark still starts."""
    columns = (
        SpinnerColumn(),
        _What(session),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task(what, total=None, rate="")
        began = time.perf_counter()

        def report(part: float) -> None:
            rate = part * rows / max(1e-9, time.perf_counter() - began)
            text = f"{rate:,.0f} rows per second" if rows else ""
            bars.update(bar, completed=part, total=1.0, rate=text)

        yield report


def with_progress(session: Session, started: Callable[[Report], Iterator[T]]) -> Iterator[T]:
    """Results one after the other, with a bar while one is waited for and none while it is shown."""
    bar: list[Report] = []

    def report(part: float) -> None:
        bar[0](part)

    results = started(report)
    while True:
        with progress_bar("running", session=session) as current:
            bar[:] = [current]
            found = [*itertools.islice(results, 1)]
        if not found:
            return
        yield found[0]


def interruptible(session: Session, work: Callable[[], T]) -> T:
    """What `work` gives. Ctrl-C ends it and nothing else: its jobs on Spark by their tag, then its own steps.

    It has a thread of its own: a call into Java that is left in the middle would make the next one on its connection read a wrong answer.
    Whoever calls gets KeyboardInterrupt once it has ended, or when patience has.
    """
    done: list[T] = []
    failed: list[BaseException] = []
    # Waiting for an event: a thread whose `join` is interrupted passes for one that has ended (Python 3.11).
    ended = threading.Event()
    tag = f"tidegate-statement-{next(_numbers)}"

    def run() -> None:
        try:
            session.starting.tag(tag)
            done.append(work())
        except BaseException as problem:
            failed.append(problem)
        finally:
            ended.set()

    thread = threading.Thread(target=run, name=tag, daemon=True)
    try:
        thread.start()
        while not ended.wait(0.1):
            pass
    except KeyboardInterrupt:
        threading.Thread(
            target=_end, args=(session, thread, ended, tag), name=f"{tag}-end", daemon=True
        ).start()
        with suppress(KeyboardInterrupt):  # a second one leaves it to its end
            ended.wait(PATIENCE)
        raise
    if failed:
        raise failed[0]
    return done[0]


def _end(session: Session, thread: threading.Thread, ended: threading.Event, tag: str) -> None:
    """End a thread: what it has Spark do is cancelled, also what Spark begins meanwhile; its own steps are interrupted."""
    with _lost_interrupts_untold():
        while not ended.is_set():
            session.starting.interrupt(tag)
            if not ended.wait(AGAIN) and not _waits_for_java(thread):
                interrupted = ctypes.py_object(KeyboardInterrupt)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), interrupted)


@contextmanager
def _lost_interrupts_untold() -> Iterator[None]:
    """An interrupt that meets a thread in a finalizer ends only that, and Python prints it; the thread is told again, so nobody else is."""
    told = sys.unraisablehook

    def tell(lost: sys.UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            told(lost)

    sys.unraisablehook = tell
    try:
        yield
    finally:
        sys.unraisablehook = told


def _waits_for_java(thread: threading.Thread) -> bool:
    """Whether a thread is inside a call into Java, which goes on there though the thread would be gone."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("py4j."):
            return True
        frame = frame.f_back
    return False
