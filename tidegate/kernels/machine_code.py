"""Loops over columns, as machine code for many rows and as they stand for few.

Numba needs seconds to compile a loop when it runs for the first time on a machine, and most of a second to be loaded. Whoever asks a first question
about a few hundred rows need not wait for either: Python walks over so few in milliseconds. The law: a loop means the same in both, so it is marked
`compiled` if it counts on what only machine code does (words of 64 bits that wrap without a word, exact sums of floats), and
`compiled_for_many` otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, cached_property, update_wrapper
from typing import Any, TypeVar, cast

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

_few: ContextVar[bool] = ContextVar("few", default=False)


class Loop:
    """A function that becomes machine code, kept on disk between runs, when it is first called for more than a few rows."""

    def __init__(self, function: Callable[..., Any], always: bool) -> None:
        self._function, self._always = function, always
        update_wrapper(self, function)

    @cached_property
    def machine_code(self) -> Any:
        try:
            return _numba().njit(cache=True)(self._function)
        except RuntimeError:  # there is no place where it could be kept
            return _numba().njit(self._function)

    def __call__(self, *arguments: Any) -> Any:
        if not self._always and _few.get():
            return self._function(*arguments)
        return self.machine_code(*arguments)


def compiled(function: F) -> F:
    """Machine code for any number of rows."""
    return cast(F, Loop(function, always=True))


def compiled_for_many(function: F) -> F:
    """Machine code, where more than a few rows are worked on."""
    return cast(F, Loop(function, always=False))


@contextmanager
def few_rows(few: bool = True) -> Iterator[None]:
    """What is called inside works on few rows, if so.

    >>> @compiled_for_many
    ... def doubled(n: int) -> int:
    ...     return 2 * n
    >>> with few_rows():
    ...     doubled("a")  # machine code would refuse to be given both kinds
    'aa'
    """
    token = _few.set(few)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    finally:
        _few.reset(token)


_LOCATORS = "tidegate.kernels.shipped_code.ShippedCode,UserProvidedCacheLocator,InTreeCacheLocator,UserWideCacheLocator,IPythonCacheLocator"
"""Who says where machine code is kept, on a worker that was sent this package as an archive."""


@cache
def _numba() -> Any:
    """Numba, told that a loop which another one calls is its machine code."""
    if ".zip" in __file__:
        os.environ.setdefault("NUMBA_CACHE_LOCATOR_CLASSES", _LOCATORS)
    import numba
    from numba.extending import typeof_impl

    @typeof_impl.register(Loop)
    def type_of(loop: Loop, _: Any) -> Any:
        return numba.types.Dispatcher(loop.machine_code)

    return numba
