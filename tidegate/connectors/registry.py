"""All connectors by name: those of Tidegate, those a program registers, and those of installed packages.

A package adds its own by an entry point in the group `tidegate.sources` or `tidegate.sinks`, whose name is the connector's
and which leads to a `Source` or a `SinkConnector`:

    [project.entry-points."tidegate.sources"]
    mqtt = "my_package:MQTT"

Such a package is imported when its connector is named for the first time. Names of Tidegate's own connectors stay theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from tidegate.connectors import file_sinks
from tidegate.connectors.avro_files import AvroFiles
from tidegate.connectors.avro_sinks import AvroSinks
from tidegate.connectors.console import Console
from tidegate.connectors.csv_files import CsvFiles
from tidegate.connectors.delta_sinks import DeltaSinks
from tidegate.connectors.json_files import JsonFiles
from tidegate.connectors.kafka import Kafka
from tidegate.connectors.kafka_sink import KafkaSinks
from tidegate.connectors.memory import Memory
from tidegate.connectors.noop import Noop
from tidegate.connectors.parquet_files import ParquetFiles
from tidegate.connectors.postgres import Postgres
from tidegate.connectors.postgres_sink import PostgresSinks
from tidegate.connectors.protocol import SinkConnector, Source
from tidegate.connectors.rate import Rate
from tidegate.connectors.socket_lines import SocketLines
from tidegate.connectors.spark_formats import SparkFormat
from tidegate.errors import Diagnostic, did_you_mean
from tidegate.language.catalog import Catalog, SourceCall, StreamDefinition
from tidegate.language.signatures import ROW_OPTIONS, STREAM_OPTIONS, Connector, Option, Signature

C = TypeVar("C", bound=Connector)


@dataclass(frozen=True)
class Registry(Mapping[str, C], Generic[C]):
    """Connectors of one kind by name; `own` are Tidegate's and those that the program registered."""

    what: str
    own: dict[str, C] = field(default_factory=dict)

    @property
    def group(self) -> str:
        """The group of entry points that packages use."""
        return f"tidegate.{self.what}s"

    def __getitem__(self, name: str) -> C:
        if name not in self.own:
            found = self._installed().get(name)
            if found is None:
                raise KeyError(name)
            self.own[name] = self._loaded(found)
        return self.own[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.own, *self._installed()]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def register(self, connector: C) -> None:
        """Make a connector known to all sessions of the program."""
        self.own[connector.signature.name.lower()] = connector

    def named(self, call: SourceCall) -> C:
        """The connector that a call means: the one it was read with, or the one of its name."""
        given = call.connector
        if given is not None and given.signature.name.lower() == call.function:
            return given  # type: ignore[return-value]
        found = self.get(call.function.lower())
        if found is None:
            raise Diagnostic(
                f"UNKNOWN_{self.what.upper()}",
                f"there is no {self.what} '{call.function}'",
                help=did_you_mean(call.function, list(self), f"{self.what}s"),
            )
        return found

    def _installed(self) -> dict[str, EntryPoint]:
        return {e.name.lower(): e for e in entry_points(group=self.group)}

    def _loaded(self, point: EntryPoint) -> C:
        package = point.dist.name if point.dist is not None else point.value
        try:
            found = point.load()
        except Exception as problem:
            raise Diagnostic(
                "CONNECTOR_BROKEN",
                f"the {self.what} '{point.name}' of the package '{package}' cannot be loaded: {problem}",
                help="mend or remove that package",
            ) from problem
        if not isinstance(getattr(found, "signature", None), Signature):
            raise Diagnostic(
                "CONNECTOR_BROKEN",
                f"the {self.what} '{point.name}' of the package '{package}' has no signature",
                help=f"the entry point {point.value} must lead to a value like those in tidegate.connectors.protocol",
            )
        return found  # type: ignore[no-any-return]


def _by_name(connectors: list[C]) -> dict[str, C]:
    return {c.signature.name: c for c in connectors}


_SOURCES: list[Source] = [
    CsvFiles(), JsonFiles(), ParquetFiles(), AvroFiles(), Kafka(), Postgres(), SocketLines(), Memory(), Rate(), SparkFormat(),
]  # fmt: skip
_SINKS: list[SinkConnector] = [
    file_sinks.PARQUET, file_sinks.CSV, file_sinks.JSON, AvroSinks(), DeltaSinks(), KafkaSinks(), PostgresSinks(), Console(), Noop(),
]  # fmt: skip

SOURCES: Registry[Source] = Registry("source", _by_name(_SOURCES))
SINKS: Registry[SinkConnector] = Registry("sink", _by_name(_SINKS))


def has_end(definition: StreamDefinition) -> bool:
    """Whether a stream can be read to its end; a table always is."""
    return SOURCES.named(definition.source).has_end(definition)


def catalog() -> Catalog:
    """A catalog without definitions that knows all connectors."""
    return Catalog(sources=SOURCES, sinks=SINKS)


def described() -> str:
    """The tables of the documentation: every connector of Tidegate's with what it takes."""
    lines = ["| source | rows | recorded | live | again | ordered |", "|---|---|---|---|---|---|"]
    for source in _SOURCES:
        t, s = source.traits, source.signature
        promised = " | ".join("yes" if yes else "no" for yes in (t.recorded, t.live, t.again, t.ordered))
        lines.append(f"| `{s.usage}` | {s.meaning} | {promised} |")
    lines += ["", "| sink | changes go to |", "|---|---|"]
    lines += [f"| `{k.signature.usage}` | {k.signature.meaning} |" for k in _SINKS]
    lines += ["", "| option | of | value | meaning |", "|---|---|---|---|"]
    for option, users in _options().items():
        lines.append(f"| `{option.name}` | {', '.join(users)} | {option.expects} | {option.meaning} |")
    return "\n".join(lines)


def _options() -> dict[Option, list[str]]:
    """Every option with the connectors that have it."""
    found: dict[Option, list[str]] = {option: ["every stream"] for option in STREAM_OPTIONS}
    found |= {option: ["every stream and table"] for option in ROW_OPTIONS}
    for what, connectors in (("source", _SOURCES), ("sink", _SINKS)):
        for connector in connectors:
            for option in connector.signature.options:
                found.setdefault(option, []).append(f"{connector.signature.name} {what}")
    return found
