"""Files with damage of many kinds, of which is known what they hold: the rows that can be used, and how many cannot.

A case is one file. The generator writes each row in one of the ways in which a format lets it be written, and some rows
with damage that no reader may take for a value.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.time import MAX, MIN

CASES = int(os.environ.get("TIDEGATE_INPUT_CASES", "100"))
COLUMNS = "id BIGINT NOT NULL, k INT, v DECIMAL(6, 2), s STRING, t BIGINT"
NAMES = ("id", "k", "v", "s", "t")
TEXTS = (
    "x",
    "",
    "ä, ö",
    'say "hi"',
    "two\nlines",
    " spaces ",
    "日本",
    "a;b|c",
    "null",
    "NULL",
    "\\",
    "'",
    "7",
    "{}",
    "𝄞",
)

Values = dict[str, Any]


@dataclass
class Case:
    """What a file holds: rows that can be used, how many cannot, and lines that are no rows."""

    used: list[Values] = field(default_factory=list)
    refused: int = 0
    nothing: int = 0
    aside: bool = False
    """Whether the whole file cannot be read."""


def values(dice: random.Random, number: int) -> Values:
    return {
        "id": number,
        "k": dice.choice([0, 1, 2, -7, 2**31 - 1, None]),
        "v": dice.choice([Decimal("1.25"), Decimal("-9999.99"), Decimal("0.00"), Decimal("7"), None]),
        "s": dice.choice([*TEXTS, None]),
        "t": dice.randrange(0, 60),
    }


WRONG: dict[str, tuple[str, ...]] = {
    "id": ("", "one", "1.5", str(2**63)),
    "k": ("hot", "1.5", str(2**31), "0x1", "1e2", "--1", "٣x"),
    "v": ("1.239", "10000", "1e4", "1e-3", "abc", "1_0", "NaN", "1.2.3", "1,5"),
    "t": ("", "noon", "1.5", str(2**63 - 1), str(-(2**63)), str(2**64)),
}
"""Texts that no value of a column is written as; nothing stands for NULL, which neither id nor t may be."""


def decimal_text(dice: random.Random, value: Decimal) -> str:
    """One of the ways to write a number."""
    ways = [str(value), f"{value}0" if "." in str(value) else f"{value}.", f"{value}e0", f"{value * 10}e-1"]
    return dice.choice([*ways, f"+{value}"] if value > 0 else ways)


# CSV.


def csv_case(dice: random.Random, first: int, place: Path, number: int) -> Case:
    case, names = Case(), list(NAMES)
    dice.shuffle(names)
    if dice.random() < 0.3:
        names.insert(dice.randrange(len(names) + 1), "more")
    lines = [",".join(dice.choice([n, n.upper(), f'"{n}"', f" {n}"]) for n in names)]
    for i in range(dice.randrange(1, 9)):
        row = values(dice, first + i)
        texts: list[str | None] = [_csv_text(dice, n, row.get(n)) for n in names]
        if dice.random() < 0.35:
            case.refused += 1
            texts = _damaged_csv(dice, names, texts)
        else:
            case.used.append(row)
        lines.append(",".join(_quoted(dice, text) for text in texts))
        if dice.random() < 0.1:
            lines.append("")
            case.nothing += 1
    end = dice.choice(["\n", "\r\n"])
    content = end.join(lines) + dice.choice(["", end])
    data = (b"\xef\xbb\xbf" if dice.random() < 0.2 else b"") + content.encode()
    if dice.random() < 0.2:
        (place / f"{number:05d}.csv.gz").write_bytes(gzip.compress(data))
    else:
        (place / f"{number:05d}.csv").write_bytes(data)
    return case


def _csv_text(dice: random.Random, name: str, value: Any) -> str | None:
    if name == "more":
        return dice.choice(["?", None, "a, b"])
    if value is None:
        return None
    if name == "v":
        return decimal_text(dice, value)
    if name in ("id", "k", "t"):
        return dice.choice([str(value), f" {value} "])
    return str(value)


def _damaged_csv(dice: random.Random, names: list[str], texts: list[str | None]) -> list[str | None]:
    what = dice.choice([*WRONG, "short", "long"])
    if what == "short":
        return texts[:-1]
    if what == "long":
        return [*texts, "7"]
    made = list(texts)
    made[names.index(what)] = dice.choice(WRONG[what]) or None
    return made


def _quoted(dice: random.Random, text: str | None) -> str:
    if text is None:
        return ""
    plain = text == text.strip() and text and not set(text) & set(',"\n\r')
    if plain and dice.random() < 0.7:
        return text
    sink = io.StringIO()
    csv.writer(sink, quoting=csv.QUOTE_ALL, lineterminator="").writerow([text])
    return sink.getvalue()


# JSON.


def json_line(dice: random.Random, row: Values) -> str:
    """An object: members in any order, NULLs written or left out, more members than declared."""
    members = [(n, _json_value(dice, n, v)) for n, v in row.items() if v is not None or dice.random() < 0.5]
    if dice.random() < 0.3:
        members.append(("more", dice.choice(["5", "[1, {}]", '{"id": 7}', "null"])))
    dice.shuffle(members)
    between = dice.choice([",", ", ", " ,\t"])
    return "{" + between.join(f"{json.dumps(n)}:{text}" for n, text in members) + "}"


def _json_value(dice: random.Random, name: str, value: Any) -> str:
    if value is None:
        return "null"
    if name == "v":
        text = dice.choice([str(value), f"{value}e0", f"{value * 10}e-1"])
        return dice.choice([text, json.dumps(text)])
    return json.dumps(value, ensure_ascii=dice.random() < 0.5)


JSON_WRONG: dict[str, tuple[str, ...]] = {
    "id": ("null", '"one"', "1.5", "true", "[1]", str(2**63)),
    "k": ('"hot"', "1.5", str(2**31), "true", "{}", "[1]"),
    "v": ("1.239", "10000", "1e-3", '"abc"', "true", '"1_0"', "{}", '""'),
    "t": ("null", '"noon"', "1.5", str(2**63 - 1), str(-(2**63))),
}


def json_case(dice: random.Random, first: int, place: Path, number: int) -> Case:
    case, lines = Case(), []
    for i in range(dice.randrange(1, 9)):
        row = values(dice, first + i)
        if dice.random() < 0.35:
            case.refused += 1
            lines.append(_damaged_json(dice, row))
        else:
            case.used.append(row)
            lines.append(json_line(dice, row))
        if dice.random() < 0.1:
            lines.append(dice.choice(["", "   "]))
            case.nothing += 1
    (place / f"{number:05d}.json").write_text("\n".join(lines) + dice.choice(["", "\n"]), "utf-8")
    return case


def _damaged_json(dice: random.Random, row: Values) -> str:
    what = dice.choice([*JSON_WRONG, "cut", "words", "open"])
    whole = json_line(dice, {n: v for n, v in row.items() if n != what})
    if what in JSON_WRONG:
        wrong = f"{json.dumps(what)}: {dice.choice(JSON_WRONG[what])}"
        return "{" + wrong + ("," if whole != "{}" else "") + whole[1:]
    if what == "words":
        return dice.choice(["this is no JSON", "<row/>", "id=1", '"', "}"])
    return whole[: dice.randrange(2, len(whole) - 1)] if what == "cut" else whole[:-1]


# Debezium.


def debezium_line(dice: random.Random, row: Values) -> str:
    op = dice.choice("crud")
    image = json_line(dice, row)
    sides = {
        "before": image if op == "d" else dice.choice(["null", "{}"]),
        "after": "null" if op == "d" else image,
    }
    event = ", ".join(
        [*(f'"{side}": {text}' for side, text in sides.items()), f'"op": "{op}"', '"ts_ms": 17']
    )
    event = "{" + event + "}"
    return dice.choice([event, event, f'{{"schema": {dice.choice(["null", "{}"])}, "payload": {event}}}'])


DEBEZIUM_WRONG = (
    "{", "[]", '{"id": 1}', '{"op": "t", "ts_ms": 5}', '{"op": "u", "before": {"id": 1}}', '{"op": "d"}', '{"op": ["c"]}',
    '{"op": "c", "after": [1]}', '{"op": "c", "after": ' + "[" * 3_000 + "]" * 3_000 + "}", "5", '"c"', "true",
    '{"op": "c", "after": {"id": 1, "s": "\\ud800", "t": 1}}', '{"op": "c", "after": {"id": Infinity, "t": 1}}',
    '{"schema": {"fields": [7]}, "payload": {"op": "c", "after": {"id": 1, "t": 1}}}', '{"op": "c", "after": {"id": 1, "s": 5, "t": 1}}',
    '{"op": null, "after": {"id": 1, "t": 1}}', '{"payload": 5}', '{"op": "c", "op": "x", "after": {"id": 1, "t": 1}}',
)  # fmt: skip


def debezium_case(dice: random.Random, first: int, place: Path, number: int) -> Case:
    case, lines = Case(), []
    for i in range(dice.randrange(1, 9)):
        row = values(dice, first + i)
        if dice.random() < 0.2:
            case.refused += 1
            lines.append(dice.choice(DEBEZIUM_WRONG))
        elif dice.random() < 0.2:
            case.refused += 1
            what = dice.choice(list(JSON_WRONG))
            image = json_line(dice, {n: v for n, v in row.items() if n != what})
            wrong = f"{json.dumps(what)}: {dice.choice(JSON_WRONG[what])}"
            image = "{" + wrong + ("," if image != "{}" else "") + image[1:]
            lines.append(f'{{"op": "c", "after": {image}}}')
        else:
            case.used.append(row)
            lines.append(debezium_line(dice, row))
        if dice.random() < 0.15:
            lines.append(dice.choice(["", "null", '{"schema": null, "payload": null}']))
            case.nothing += 1
    (place / f"{number:05d}.json").write_text("\n".join(lines), "utf-8")
    return case


# Parquet.

TYPES: dict[str, tuple[pa.DataType, ...]] = {
    "id": (pa.int64(), pa.int32()),
    "k": (pa.int32(),),
    "v": (pa.decimal128(6, 2), pa.decimal128(6, 2), pa.decimal128(5, 2)),
    "s": (pa.string(), pa.large_string()),
    "t": (pa.int64(), pa.int32()),
}
"""What a column may be stored as."""
FOREIGN: dict[str, tuple[pa.DataType, ...]] = {
    "id": (pa.string(), pa.float64()),
    "k": (pa.int64(), pa.string(), pa.bool_()),
    "v": (pa.decimal128(9, 3), pa.float64(), pa.string()),
    "s": (pa.int32(), pa.bool_()),
    "t": (pa.string(), pa.float64()),
}


def parquet_case(dice: random.Random, first: int, place: Path, number: int) -> Case:
    case, rows = Case(), []
    types = {n: dice.choice(t) for n, t in TYPES.items()}
    for i in range(dice.randrange(1, 9)):
        row = values(dice, first + i)
        if row["v"] is not None and types["v"].precision == 5 and abs(row["v"]) >= 1000:
            row["v"] = None
        wrong = dice.random() < 0.25
        if wrong:
            choices: list[tuple[str, Any]] = [("id", None), ("t", None)]
            choices += [("t", MIN), ("t", MAX), ("t", MAX - 1)] if types["t"] == pa.int64() else []
            row |= [dice.choice(choices)]
            case.refused += 1
        rows.append(row)
        case.used += [] if wrong else [row]
    foreign = dice.choice(NAMES) if dice.random() < 0.1 else None
    names = list(NAMES)
    if foreign is None and dice.random() < 0.2:
        gone = names.pop(dice.choice([1, 2, 3]))
        case.used = [{**row, gone: None} for row in case.used]
    dice.shuffle(names)
    arrays = {n: pa.array([r[n] for r in rows], types[n]) for n in names if n != foreign}
    if foreign is not None:
        arrays[foreign] = pa.nulls(len(rows), dice.choice(FOREIGN[foreign]))
    if dice.random() < 0.3:
        arrays["more"] = pa.array(["?"] * len(rows))
    file = place / f"{number:05d}.parquet"
    pq.write_table(
        pa.table(arrays), file, compression=dice.choice(["none", "snappy", "gzip", "zstd"]),
        row_group_size=dice.choice([1, 3, 100]), use_dictionary=dice.random() < 0.5, write_statistics=dice.random() < 0.7,
    )  # fmt: skip
    broken = dice.random() < 0.15
    if broken:
        _break(dice, file)
    if broken or foreign is not None:
        return Case(aside=True)
    return case


def _break(dice: random.Random, file: Path) -> None:
    data = file.read_bytes()
    damage: Callable[[], bytes] = dice.choice(
        [
            lambda: data[: len(data) // 2],
            lambda: data[:-1],
            lambda: b"PAR1" + bytes(50) + b"PAR1",
            lambda: b"a,b\n1,2\n",
        ]
    )
    file.write_bytes(damage())


CASE_OF = {"csv": csv_case, "json": json_case, "debezium": debezium_case, "parquet": parquet_case}


def cases(form: str, place: Path, seed: int) -> list[Case]:
    """So many files of a form in a folder, and what each of them holds."""
    place.mkdir()
    dice = random.Random(f"{form} {seed}")
    return [CASE_OF[form](dice, 100 * number, place, number) for number in range(CASES)]
