"""Imports go one way, from the algebra up to the command line (docs: how it is built)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "tidegate"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "redaction", "policy", "time", "types", "codec", "object_store", "storage"),
    ("scalars",),
    ("algebra",),
    ("reference", "language", "optimizer", "kernels"),
    ("physical",),
    ("spark",),
    ("connectors",),
    ("exchange",),
    ("worker",),
    ("runtime",),
    ("query",),
    ("script",),
    ("remote",),
    ("session",),
)
"""From the bottom up. All else (cli, server, shell …) is a front end, on top of these."""

FRONT = len(LAYERS)
SPARK = next(level for level, parts in enumerate(LAYERS) if "spark" in parts)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}

INTERNALS = {"_jvm", "_jdf", "_jsc", "_jsparkSession", "rdd"}
"""What Spark Connect does not have."""


def part_of(module: str) -> str:
    """The part of the house a module belongs to; the package's face re-exports the session."""
    names = module.split(".")
    return names[1] if len(names) > 1 and names[1] != "__init__" else "session"


def may_import(importer: str, imported: str) -> bool:
    """Lower parts, or the same; neighbours only at the bottom and at the front.

    >>> may_import("kernels", "algebra"), may_import("algebra", "kernels"), may_import("kernels", "language")
    (True, False, False)
    """
    above, below = LEVEL.get(importer, FRONT), LEVEL.get(imported, FRONT)
    return importer == imported or below < above or (below == above and above in (0, FRONT))


def imports(source: str, module: str, is_package: bool, known: set[str]) -> Iterator[tuple[int, str]]:
    """Line and full name of every module that is imported, wherever the import stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".")
            if node.level:
                package = package[: len(package) - node.level + is_package]
            else:
                package = []
            base = ".".join([*package, *([node.module] if node.module else [])])
            for alias in node.names:
                # `from tidegate import time` names a module, `from tidegate.time import MAX` does not.
                full = f"{base}.{alias.name}"
                yield node.lineno, full if full in known else base
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = (
                node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            )
            if function in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.lineno, node.args[0].value


def violations(sources: dict[str, tuple[str, bool]]) -> list[str]:
    """Every import against the order, among modules given as name -> (source, is it a package)."""
    found = []
    for module, (source, is_package) in sorted(sources.items()):
        part = part_of(module)
        for line, name in imports(source, module, is_package, set(sources)):
            root = name.split(".")[0]
            if root == "tidegate" and not may_import(part, part_of(name)):
                found.append(f"{module}:{line}: {part} must not import {name}")
            elif root in ("pyspark", "py4j") and LEVEL.get(part, FRONT) < SPARK:
                found.append(f"{module}:{line}: {part} must not import {root}")
    return found


def internals(sources: dict[str, tuple[str, bool]]) -> list[str]:
    """Every use of what only the classic, in-process Spark has."""
    found = []
    for module, (source, _) in sorted(sources.items()):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Attribute) and node.attr in INTERNALS:
                found.append(f"{module}:{node.lineno}: {node.attr}")
            elif isinstance(node, ast.Constant) and node.value in INTERNALS:
                found.append(f"{module}:{node.lineno}: {node.value!r}, as for getattr")
    return found


def package_sources() -> dict[str, tuple[str, bool]]:
    sources = {}
    for path in PACKAGE.rglob("*.py"):
        names = path.relative_to(PACKAGE.parent).with_suffix("").parts
        is_package = names[-1] == "__init__"
        sources[".".join(names[:-1] if is_package else names)] = (path.read_text("utf-8"), is_package)
    return sources


def test_imports_go_one_way() -> None:
    sources = package_sources()
    assert {"tidegate.errors", "tidegate.algebra.operators", "tidegate.kernels.rows"} <= set(sources)
    assert violations(sources) == []


def test_only_the_public_dataframe_interface_is_used() -> None:
    assert internals(package_sources()) == []


MODULES = {
    "tidegate": ("", True),
    "tidegate.time": ("", False),
    "tidegate.algebra": ("", True),
    "tidegate.algebra.operators": ("", False),
    "tidegate.kernels": ("", True),
    "tidegate.kernels.rows": ("", False),
    "tidegate.runtime": ("", True),
    "tidegate.session": ("", False),
}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tidegate.algebra.operators", "from tidegate.kernels.rows import Rows"),
        ("tidegate.algebra.operators", "from tidegate.kernels import rows"),
        ("tidegate.algebra.operators", "from tidegate import kernels"),
        ("tidegate.algebra.operators", "from ..kernels import rows"),
        ("tidegate.algebra.operators", "from .. import kernels"),
        ("tidegate.algebra.operators", "import tidegate.kernels.rows as rows"),
        (
            "tidegate.algebra.operators",
            "def f():\n    from tidegate.kernels import rows  # import-order: lazy",
        ),
        ("tidegate.algebra.operators", "if TYPE_CHECKING:\n    import tidegate.session"),
        ("tidegate.algebra.operators", "importlib.import_module('tidegate.kernels.rows')"),
        ("tidegate.algebra.operators", "from tidegate import connect"),
        ("tidegate.algebra", "from ..kernels import rows"),
        ("tidegate.kernels.rows", "from tidegate.language import binder"),
        ("tidegate.kernels.rows", "from pyspark.sql import functions"),
        ("tidegate.kernels.rows", "def f():\n    import pyspark"),
        ("tidegate.runtime", "from tidegate.cli import main"),
        ("tidegate.runtime", "import tidegate"),
        ("tidegate.time", "from tidegate.algebra import operators"),
    ],
)
def test_an_import_against_the_order_is_found(module: str, source: str) -> None:
    assert len(violations({**MODULES, module: (source, MODULES[module][1])})) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tidegate.kernels.rows", "from tidegate.algebra.operators import Node\nfrom tidegate import time"),
        ("tidegate.kernels", "from .rows import Rows\nfrom . import rows"),
        (
            "tidegate.runtime",
            "import pyspark\nfrom tidegate.kernels import rows\nfrom ..algebra import operators",
        ),
        ("tidegate", "from tidegate.session import connect"),
        ("tidegate.cli", "import tidegate\nfrom tidegate.server import serve"),
        ("tidegate.algebra.operators", "import time\nimport types"),
    ],
)
def test_an_import_along_the_order_passes(module: str, source: str) -> None:
    assert violations({**MODULES, module: (source, module in MODULES and MODULES[module][1])}) == []


@pytest.mark.parametrize("source", ["frame.rdd.map(f)", "spark._jvm.System", "getattr(frame, '_jdf')"])
def test_a_use_of_internals_is_found(source: str) -> None:
    assert len(internals({"tidegate.physical.plan": (source, False)})) == 1
