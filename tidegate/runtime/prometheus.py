"""The figures of graphs in Prometheus' text format: counters since a graph was started here, gauges of its last epochs.

What an operator is and for whom it works stands in `tidegate_operator_info` alone, so that its series go on when that changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.runtime.ledger import Manifest
from tidegate.runtime.notes import Note
from tidegate.time import MAX, MIN

_OPERATOR = {
    "rows_in_total": ("counter", "total_rows_in", "Rows that an input or operator took."),
    "rows_out_total": ("counter", "total_rows_out", "Rows that it gave."),
    "retractions_total": ("counter", "total_retractions", "Rows that it gave to take others back."),
    "cpu_seconds_total": ("counter", "total_cpu_seconds", "Processor time that it used."),
    "state_rows": ("gauge", "state_rows", "Rows that it keeps."),
    "state_bytes": ("gauge", "state_bytes", "Bytes of the rows that it keeps."),
    "selectivity": ("gauge", "selectivity", "Rows out for each row in, in the last epoch."),
    "validity_ticks": ("gauge", "validity", "How long its rows are valid on average, as far as their end is known."),
    "granule_ticks": ("gauge", "granule", "What the instants at which its rows begin and end are multiples of."),
    "keys": ("gauge", "keys", "About how many keys its rows had in an epoch."),
    "skew": ("gauge", "skew", "Rows of the largest partition against the mean."),
}  # fmt: skip


@dataclass
class _Family:
    kind: str
    help: str
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)


@dataclass(frozen=True)
class Reading:
    """What is known of one graph."""

    graph: str
    manifest: Manifest
    note: Note
    running: bool
    width: int = 1


def exposition(readings: Iterable[Reading]) -> str:
    """The figures of some graphs, one family of metrics after the other."""
    families: dict[str, _Family] = {}

    def add(name: str, kind: str, help: str, value: float | None, **labels: str) -> None:
        if value is not None:
            families.setdefault(name, _Family(kind, help)).samples.append((labels, float(value)))

    for r in readings:
        graph, manifest, note = r.graph, r.manifest, r.note
        add("running", "gauge", "Whether the graph runs.", r.running, graph=graph)
        add("epochs_total", "counter", "Epochs that count.", manifest.epoch, graph=graph)
        add("delay_seconds", "gauge", "From taking rows until their answers count.", note.delay, graph=graph)
        reached = None if manifest.upto in (MIN, MAX) else manifest.upto // r.width
        add("watermark_ticks", "gauge", "Answers before it are final.", reached, graph=graph)
        for name, source in manifest.sources.items():
            add("source_rows_total", "counter", "Rows that came.", source.rows, graph=graph, source=name)
            refused = sum(source.refused.values())
            add("source_refused_total", "counter", "Rows in quarantine.", refused, graph=graph, source=name)
        for done in note.operators:
            own = {"graph": graph, "operator": str(done["operator"])}
            words = {"title": str(done["title"]), "queries": str(done["queries"])}
            add("operator_info", "gauge", "What it is, and for which queries.", 1, **own, **words)
            for name, (kind, key, help) in _OPERATOR.items():
                add(f"operator_{name}", kind, help, done.get(key), **own)
    return "".join(_written(f"tidegate_{name}", family) for name, family in families.items())


def _written(name: str, family: _Family) -> str:
    lines = [f"# HELP {name} {_plain(family.help)}", f"# TYPE {name} {family.kind}"]
    for labels, value in family.samples:
        said = ",".join(f'{label}="{_quoted(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{said}}} {int(value) if value == int(value) else repr(value)}")
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    r"""A label's value, in which backslash, quote and line feed are escaped.

    >>> print(_quoted('a "b"\n\\c'))
    a \"b\"\n\\c
    """
    return _plain(text).replace('"', '\\"')
