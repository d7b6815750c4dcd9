"""The statements of docs/recipes.md and docs/coming-from.md run, and each answer is the reference's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

import tidegate
from tidegate.language import syntax
from tidegate.language.dialect import parse

DOCS = Path(__file__).parents[2] / "docs"

FILES = {
    "temp.csv": "room,degrees,t\na,90,1\nb,70,3\na,90,4\na,86,5\na,75,8\nb,88,10\nb,88,26\n",
    "sales.csv": "shop,amount,t\nx,3,2026-01-01 09:00:00\nx,4,2026-01-01 23:00:00\nx,5,2026-01-02 01:00:00\n",
    "bids.csv": "auction,bidder,price,bidtime\n"
    + "".join(f"{n % 3},{n % 4},{n * 7 % 11 + 1},2026-01-01 00:{n * 3 % 50:02d}:00\n" for n in range(12)),
    "quotes.csv": "bidder,rate,quoted\n1,2,2026-01-01 00:00:00\n1,3,2026-01-01 00:15:00\n2,5,2026-01-01 00:10:00\n",
    "persons.csv": "id,name\n1,Ada\n2,Bo\n",
    "auctions.json": "\n".join(
        json.dumps({"id": n, "seller": n % 2, "tags": ["x"] * n, "opened": f"2026-01-01 00:{n:02d}:00"})
        for n in range(3)
    ),
}


def statements(page: str) -> list[tuple[str, exp.Expression]]:
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```sql\n(.*?)```", text, re.S)
    return [(block, statement) for block in blocks for statement in parse(block)]


@pytest.mark.parametrize("page", ["recipes.md", "coming-from.md"])
def test_statements_of_a_page(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    tg = tidegate.connect(spark=spark)
    queries = []
    for block, statement in statements(page):
        if isinstance(statement, syntax.Statement):
            found = tg.execute(statement, block)
            assert not isinstance(found, DataFrame) or found.collect()
        else:
            queries.append(tg.bound_query(statement, block))
    assert len(queries) >= 9
    for query, result in zip(queries, tg.run(queries), strict=True):
        verified = query.verify(instants=8, result=result)
        assert verified, f"{query}: {verified}"
        assert verified.change_points > 0, query
        assert sum(part.counts.rows for part in result.parts()) > 0, query
