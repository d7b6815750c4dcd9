"""The package travels: workers on other machines run the code of the driver, whether or not Tidegate is installed there.

It is sent as an archive whose name says what is in it, so that two versions never meet under one name, and a program that connects
twice sends it once. What it needs (pyarrow, polars, numpy, numba) is the environment's.
"""

from __future__ import annotations

import hashlib
import tempfile
import weakref
import zipfile
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

_sent: weakref.WeakSet[object] = weakref.WeakSet()


def ship(spark: SparkSession) -> None:
    """Let the workers of a session import this package, if they are not of this process's machine and environment."""
    if in_this_environment(str(spark.conf.get("spark.master", "") or "")):
        return
    if is_remote(spark):
        if spark not in _sent:
            spark.addArtifacts(str(archive()), pyfile=True)
            _sent.add(spark)
        return
    context = spark.sparkContext
    if context not in _sent:
        context.addPyFile(str(archive()))
        _sent.add(context)


def is_remote(spark: object) -> bool:
    """Whether a session is one of Spark Connect's: a client of a server, without a context."""
    return not isinstance(spark, SparkSession)


def in_this_environment(master: str) -> bool:
    """Whether the tasks of a master run as this machine's processes below the driver.

    >>> [in_this_environment(m) for m in ("local", "local[*]", "local-cluster[2,1,1024]", "spark://m:7077", "yarn", "")]
    [True, True, False, False, False, False]
    """
    return master == "local" or master.startswith("local[")


@cache
def archive() -> Path:
    """This package as an archive, made once for a process and deleted at its end."""
    package = Path(__file__).resolve().parents[1]
    files = sorted(f for f in package.rglob("*") if f.suffix in (".py", ".json", ".sql"))
    names = [f"{package.name}/{f.relative_to(package).as_posix()}" for f in files]
    digest = hashlib.sha256()
    for name, file in zip(names, files, strict=True):
        digest.update(f"{name}\n{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    place = tempfile.TemporaryDirectory(prefix="tidegate-package-")
    weakref.finalize(_sent, place.cleanup)
    path = Path(place.name, f"tidegate-{digest.hexdigest()[:16]}.zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as found:
        for name, file in zip(names, files, strict=True):
            found.writestr(zipfile.ZipInfo(name), file.read_bytes())
    return path
