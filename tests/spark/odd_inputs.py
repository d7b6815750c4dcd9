"""Kinds of odd input with what happens to each: the table of docs/inputs.md, and what tests/spark/test_odd_inputs.py tries."""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = "id INT, a INT, d DECIMAL(5, 2), s STRING, f DOUBLE, day DATE, b BOOLEAN, n INT NOT NULL, t BIGINT"
NAMES = ("id", "a", "d", "s", "f", "day", "b", "n", "t")
PLAIN = ("1", "1.25", "x", "0.5", "2024-03-01", "true", "1")
"""The texts of a row without its id and its time, which equals the id."""
VALUES = {"a": 1, "d": Decimal("1.25"), "s": "x", "f": 0.5, "day": date(2024, 3, 1), "b": True, "n": 1}


@dataclass(frozen=True)
class Kind:
    """Something odd in a file: the rows that are used (what differs from a plain row), and the reasons of those that are not."""

    name: str
    form: str
    content: bytes
    used: tuple[Mapping[str, Any], ...] = ()
    refused: tuple[str, ...] = ()
    note: str = ""

    @property
    def happens(self) -> str:
        if self.refused:
            return f"refused: `{self.refused[0]}`" + (f"; {self.note}" if self.note else "")
        return self.note


@dataclass(frozen=True)
class Failing:
    """A source that cannot be read as it is declared: the condition of the error, which names the file."""

    name: str
    form: str
    files: Mapping[str, bytes]
    condition: str
    help: str = ""
    columns: str = "a INT"
    more: str = ""

    @property
    def happens(self) -> str:
        return (
            f"error `{self.condition}`"
            + (f": {self.help}" if self.help else "")
            + LIVE.get(self.condition, "")
        )


LIVE = {
    "SOURCE_BROKEN": "; live, the file is set aside",
    "UNCLOSED_QUOTE": "; live, the file is set aside",
    "TYPE_MISMATCH": "; live, the file is set aside",
}


@dataclass(frozen=True)
class Shown:
    """What needs more than a file, and the test that shows it."""

    name: str
    form: str
    happens: str
    test: str


def _csv(header: str = ",".join(NAMES), end: str = "\n", **changed: str) -> bytes:
    row = dict(zip(NAMES, ("{id}", *PLAIN, "{id}"), strict=True)) | changed
    return f"{header}{end}{','.join(row.values())}{end}".encode()


def _json(text: str) -> bytes:
    return text.encode()


def _object(**changed: str) -> bytes:
    texts = dict(
        zip(NAMES, ("{id}", "1", "1.25", '"x"', "0.5", '"2024-03-01"', "true", "1", "{id}"), strict=True)
    )
    members = ", ".join(f'"{n}": {text}' for n, text in (texts | changed).items() if text)
    return f"<{members}>\n".encode()


def _event(op: str = '"c"', **changed: str) -> bytes:
    image = _object(**changed).decode().strip()
    return f'<"op": {op}, "after": {image}>\n'.encode()


ROW_CSV = _csv()
ROW_EVENT = _event()
PLAINLY: tuple[Mapping[str, Any], ...] = ({},)

CSV = (
    Kind("a text where an INT is declared", "csv", _csv(a="hot"), refused=("column 'a' is no INT: hot",)),
    Kind("a fraction where an INT is declared", "csv", _csv(a="1.5"), refused=("column 'a' is no INT: 1.5",)),
    Kind("a number beyond its type", "csv", _csv(a=str(2**40)), refused=(f"column 'a' is no INT: {2**40}",)),
    Kind("spaces around a number", "csv", _csv(a=" 7 "), ({"a": 7},), note="used without them"),
    Kind("nothing between two separators", "csv", _csv(a=""), ({"a": None},), note="used as NULL"),
    Kind("a quoted empty text", "csv", _csv(s='""'), ({"s": ""},), note="used as a text without characters"),
    Kind("NULL in a NOT NULL column", "csv", _csv(n=""), refused=("column 'n' is NULL",)),
    Kind("no time", "csv", _csv(t=""), refused=("the time is NULL",)),
    Kind("a time that is none", "csv", _csv(t="noon"), refused=("column 't' is no BIGINT: noon",)),
    Kind(
        "a time at the limit of 64 bits", "csv", _csv(t=str(2**63 - 1)),
        refused=(f"the time is at the limit of 64 bits: {2**63 - 1}",),
    ),
    Kind("a decimal with digits too many", "csv", _csv(d="1.239"), refused=("column 'd' is no DECIMAL(5,2): 1.239",)),
    Kind("a decimal that is too large", "csv", _csv(d="1000"), refused=("column 'd' is no DECIMAL(5,2): 1000",)),
    Kind(
        "a decimal with a digit far behind the point", "csv", _csv(d="1.25" + "0" * 40 + "1"),
        refused=("column 'd' is no DECIMAL(5,2): 1.25" + "0" * 40 + "1",),
    ),
    Kind("a decimal with zeros at its end", "csv", _csv(d="1.250000"), PLAINLY, note="used"),
    Kind("a decimal with an exponent", "csv", _csv(d="12e1"), ({"d": Decimal("120.00")},), note="used"),
    Kind("a day that does not exist", "csv", _csv(day="2024-02-30"), refused=("column 'day' is no DATE: 2024-02-30",)),
    Kind(
        "a day in the year 10000", "csv", _csv(day="+10000-01-01"),
        refused=("column 'day' is not in the years 1 to 9999: 10000",),
    ),
    Kind("NaN as a DOUBLE", "csv", _csv(f="NaN"), ({"f": float("nan")},), note="used"),
    Kind("a truth value that is none", "csv", _csv(b="maybe"), refused=("column 'b' is no BOOLEAN: maybe",)),
    Kind("a value too many", "csv", _csv(t="{id},7"), refused=("the row cannot be read",)),
    Kind("a value too few", "csv", ROW_CSV.replace(b",x,", b","), refused=("the row cannot be read",)),
    Kind("a separator inside quotes", "csv", _csv(s='"x, y"'), ({"s": "x, y"},), note="used"),
    Kind("doubled quotes inside quotes", "csv", _csv(s='"a ""b"""'), ({"s": 'a "b"'},), note="used, one quote each"),
    Kind("a line end inside quotes", "csv", _csv(s='"a\nb"'), ({"s": "a\nb"},), note="used"),
    Kind("quotes inside a value without quotes", "csv", _csv(s='5" 6"'), ({"s": '5" 6"'},), note="used as they are"),
    Kind("blank lines", "csv", ROW_CSV + b"\n\n", PLAINLY, note="no rows"),
    Kind("bytes that are no UTF-8", "csv", _csv(s="@").replace(b"@", b"\xff"), ({"s": "\ufffd"},), note="used; the bytes become U+FFFD"),
    Kind("a byte order mark", "csv", b"\xef\xbb\xbf" + ROW_CSV, PLAINLY, note="skipped"),
    Kind("line ends of Windows", "csv", _csv(end="\r\n"), PLAINLY, note="used"),
    Kind("names in another case and with spaces", "csv", ROW_CSV.replace(b"id,a,d", b"ID, A,d"), PLAINLY, note="used"),
    Kind("a file without names", "csv", ROW_CSV.split(b"\n", 1)[1], PLAINLY, note="used: the declared order is expected"),
    Kind(
        "columns in another order, and more of them", "csv",
        b"t,more,n,b,day,f,s,d,a,id\n{id},?,1,true,2024-03-01,0.5,x,1.25,1,{id}\n", PLAINLY,
        note="used by their names; live, a file with another order than the first one's is set aside",
    ),
    Kind("an empty file", "csv", b"", note="no rows"),
    Kind("a file with names only", "csv", ",".join(NAMES).encode(), note="no rows"),
)  # fmt: skip

JSON = (
    Kind("a line that is no JSON", "json", b"<no json\n", refused=("the row cannot be read",)),
    Kind("an object that is cut off", "json", _object()[:-20], refused=("the row cannot be read",)),
    Kind("a member that is absent", "json", _object(a=""), ({"a": None},), note="used as NULL"),
    Kind("a member that is null", "json", _object(a="null"), ({"a": None},), note="used as NULL"),
    Kind("an absent member of a NOT NULL column", "json", _object(n=""), refused=("column 'n' is NULL",)),
    Kind("members that nobody declared", "json", _object(more='<"x": [1]>'), PLAINLY, note="passed over"),
    Kind("a text where a number is declared", "json", _object(a='"7"'), refused=("column 'a' is no INT: 7",)),
    Kind("a fraction where an INT is declared", "json", _object(a="1.5"), refused=("column 'a' is no INT: 1.5",)),
    Kind("a number beyond its type", "json", _object(a=str(2**40)), refused=(f"column 'a' is no INT: {2**40}",)),
    Kind("a number where a STRING is declared", "json", _object(s="7.50"), ({"s": "7.50"},), note="used as its text"),
    Kind("an object where a STRING is declared", "json", _object(s='<"y": 1>'), ({"s": '{"y": 1}'},), note="used as its text"),
    Kind("a decimal as a text", "json", _object(d='"1.25"'), PLAINLY, note="used"),
    Kind("a decimal with digits too many", "json", _object(d="1.239"), refused=("column 'd' is no DECIMAL(5,2): 1.239",)),
    Kind("blank lines", "json", b"\n  \n" + _object(), PLAINLY, note="no rows"),
    Kind("characters written with escapes", "json", _object(s='"\\u00e4"'), ({"s": "ä"},), note="used"),
)  # fmt: skip

DEBEZIUM = (
    Kind("a tombstone", "debezium", b"null\n" + ROW_EVENT, PLAINLY, note="no row"),
    Kind("an operation on no single row", "debezium", b'<"op": "t">\n', refused=("operation 't' changes no single row",)),
    Kind(
        "a deletion without the old row", "debezium", b'<"op": "d">\n',
        refused=("operation 'd' without 'before'; a deletion needs the key's old values (REPLICA IDENTITY)",),
    ),
    Kind(
        "an object that is no event", "debezium", b'<"id": 1>\n',
        refused=("there is no operation: this is not Debezium's envelope",),
    ),
    Kind("a number beyond its type", "debezium", _event(a=str(2**40)), refused=(f"column 'a' is no INT: {2**40}",)),
    Kind("half of a surrogate pair", "debezium", _event(s='"\\ud800"'), refused=("column 's' is no STRING: \\ud800",)),
    Kind("bytes that are no UTF-8", "debezium", _event(s='"@"').replace(b"@", b"\xff"), refused=("this is no UTF-8",)),
    Kind(
        "values nested 100,000 deep", "debezium", b'<"op": "c", "after": ' + b"[" * 100_000 + b"]" * 100_000 + b">\n",
        refused=("this is not Debezium's envelope: RecursionError",),
    ),
    Kind(
        "a schema that is none", "debezium", b'<"schema": <"fields": [7]>, "payload": ' + ROW_EVENT.strip() + b">\n",
        refused=("this is not Debezium's envelope: AttributeError",),
    ),
    Kind("a decimal with digits too many", "debezium", _event(d="1.239"), refused=("column 'd' is no DECIMAL(5,2): 1.239",)),
)  # fmt: skip


def _parquet(**columns: pa.Array) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def _avro(kind: str, *rows: Any) -> bytes:
    sink = io.BytesIO()
    members = [{"name": "a", "type": kind}, {"name": "t", "type": "long"}]
    schema = {"type": "record", "name": "row", "fields": members if kind else members[1:]}
    fastavro.writer(sink, schema, [{"a": a, "t": 1} for a in rows or (1,)])
    return sink.getvalue()


T = pa.array([1], pa.int64())
FAILING = (
    Failing("a file that lacks a declared column", "csv", {"1.csv": b"b,t\n1,1\n"}, "UNKNOWN_COLUMN", "with the names that it has"),
    Failing("a misspelt column", "csv", {"1.csv": b"aa,t\n1,1\n"}, "UNKNOWN_COLUMN", "did you mean 'aa'?"),
    Failing("another separator than was said", "csv", {"1.csv": b"a;t\n1;1\n"}, "COLUMN_COUNT"),
    Failing("a column twice", "csv", {"1.csv": b"a,A,t\n1,1,1\n"}, "DUPLICATE_COLUMN"),
    Failing("a quote that is not closed", "csv", {"1.csv": b'a,t\n"1,1\n'}, "UNCLOSED_QUOTE"),
    Failing("a broken gzip file", "csv", {"1.csv.gz": gzip.compress(b"a,t\n" + b"1,1\n" * 999)[:40]}, "SOURCE_BROKEN"),
    Failing("a path that leads nowhere", "csv", {}, "SOURCE_NOT_FOUND", "with the files beside it"),
    Failing("every row refused", "csv", {"1.csv": b"a,t\nx,1\n"}, "ALL_ROWS_REFUSED"),
    Failing(
        "a refused row under `on_error = 'stop'`", "csv", {"1.csv": b"a,t\n1,1\nx,1\n"}, "ROW_REFUSED",
        "with the file, line, column and value", more="WITH (on_error = 'stop')",
    ),
    Failing("a column that no object has", "json", {"1.json": b'{"b": 1, "t": 1}\n'}, "UNKNOWN_COLUMN", "with the names that there are"),
    Failing("a column stored wider than declared", "parquet", {"1.parquet": _parquet(a=pa.array([1], pa.int64()), t=T)}, "TYPE_MISMATCH"),
    Failing("a text column declared as a number", "parquet", {"1.parquet": _parquet(a=pa.array(["1"]), t=T)}, "TYPE_MISMATCH"),
    Failing(
        "another type in a later file only", "parquet",
        {"1.parquet": _parquet(a=pa.array([1], pa.int32()), t=T), "2.parquet": _parquet(a=pa.array(["1"]), t=T)}, "TYPE_MISMATCH",
    ),
    Failing("a column that no file has", "parquet", {"1.parquet": _parquet(t=T)}, "UNKNOWN_COLUMN"),
    Failing("a file that is no Parquet", "parquet", {"1.parquet": b"a,t\n1,1\n"}, "SOURCE_BROKEN"),
    Failing("a column stored wider than declared", "avro", {"1.avro": _avro("long")}, "TYPE_MISMATCH"),
    Failing("another type in a later file only", "avro", {"1.avro": _avro("int"), "2.avro": _avro("string", "1")}, "TYPE_MISMATCH"),
    Failing("a column that no file has", "avro", {"1.avro": _avro("")}, "UNKNOWN_COLUMN"),
    Failing("a file that is no Avro", "avro", {"1.avro": b"a,t\n1,1\n"}, "SOURCE_BROKEN"),
    Failing("a file that ends within a block", "avro", {"1.avro": _avro("int")[:-9]}, "SOURCE_BROKEN"),
    Failing("an option that does not exist", "csv", {"1.csv": b"a,t\n1,1\n"}, "UNKNOWN_OPTION", "did you mean 'separator'?", more="WITH (seperator = ';')"),
)  # fmt: skip

PARQUET = (
    Kind("a column stored narrower than declared", "parquet", b"int16", note="used"),
    Kind("a column that only some files have", "parquet", b"less", ({"a": None},), note="used as NULL"),
    Kind("NULL in a NOT NULL column", "parquet", b"null", refused=("column 'n' is NULL",)),
)

LIVELY = (
    Shown("a block whose content is damaged", "avro", "its records from the damage on are refused, and the other blocks used",
          "test_avro_files.py::test_a_damaged_block_is_refused_and_the_others_are_used"),
    Shown("a TIMESTAMP more than a day past the clock", "live", "refused: `column 't' is too far ahead of the clock: …`; `ahead` says how far",
          "test_refusals.py::test_one_row_from_the_far_future_makes_no_other_late"),
    Shown("an integer time that is too large", "live, recorded", "used, unless `latest` bounds it: then refused: `column 't' is later than any row may be: …`",
          "test_refusals.py::test_integer_time_has_the_bound_that_is_said"),
    Shown("a row later than `slack` allows", "live", "refused: `later than promised`", "test_odd_inputs.py::test_a_late_row_is_refused"),
    Shown("a file older than a week", "live", "read", "test_live_files.py::test_csv_files_come_as_they_are"),
    Shown("a file that is gone before it was read", "live", "set aside by its name; read if it comes back",
          "test_live_files.py::test_a_file_that_is_gone_before_it_was_read"),
    Shown("a file that grows or is replaced after it was read", "live", "told by its name in the log and in the status; its new rows are not read",
          "test_live_files.py::test_csv_files_come_as_they_are"),
    Shown("a file that breaks in the middle", "live", "set aside whole, and the stream goes on; with `on_error = 'stop'` it ends",
          "test_live_files.py::test_parquet_files_come_as_they_are"),
    Shown("a file that was set aside and is mended", "live", "read", "test_live_files.py::test_csv_files_come_as_they_are"),
    Shown("an empty file that gets its rows later", "live", "read when it has them", "test_live_files.py::test_csv_files_come_as_they_are"),
    Shown("a single file", "live", "read once", "test_live_files.py::test_a_single_file_is_a_live_source"),
)  # fmt: skip

ALL: tuple[Kind | Failing | Shown, ...] = (*CSV, *JSON, *DEBEZIUM, *PARQUET, *FAILING, *LIVELY)


def table() -> str:
    """The table of the documentation."""
    lines = ["| input | in | what happens |", "|---|---|---|"]
    for kind in ALL:
        text = kind.happens if len(kind.happens) < 200 else kind.happens[:60] + "…`"
        lines.append(f"| {kind.name} | {kind.form} | {text.replace('|', chr(92) + '|')} |")
    return "\n".join(lines)
