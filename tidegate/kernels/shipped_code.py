"""Machine code of a package that was sent to a worker as an archive.

Every program leaves the archive in another place, and Numba looks for machine code by the place of the source. The archive's name says what is in it,
so its name alone decides here: a worker compiles a loop once, not once for each program.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from numba.core.caching import ZipCacheLocator


class ShippedCode(ZipCacheLocator):
    """Where the machine code of a loop is kept: by the name of its archive, and its place in that."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> ShippedCode | None:
        locator: ShippedCode | None = super().from_function(py_func, py_file)  # type: ignore[no-untyped-call]
        if locator is not None:
            try:
                locator.ensure_cache_path()  # type: ignore[no-untyped-call]
            except OSError:
                return None
        return locator

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        path = Path(py_file)
        archive = next((i for i, part in enumerate(path.parts) if part.endswith(".zip")), 0)
        inside = os.path.join("/", *path.parts[archive:])
        return str(super().get_suitable_cache_subpath(inside))  # type: ignore[no-untyped-call]
