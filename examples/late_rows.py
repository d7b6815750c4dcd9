"""Late data and quarantine: rows that come later than promised are not used, and not lost.

Run from the project's directory: .venv/bin/python examples/late_rows.py
"""

import tidegate


def main() -> None:
    tg = tidegate.connect()
    # Rows may come up to five ticks later than newer ones.
    tg.stream("Reading", [], schema="value INT, t BIGINT", ordered_by="t", slack=5)
    total = tg.query("SELECT SUM(value) AS total FROM Reading WINDOW(RANGE UNBOUNDED)").start("total")

    tg.push("Reading", [(1, 10), (2, 20), (4, 17)])  # 17 after 20 is within the slack
    while (total.status()["watermark"] or 0) < 15:
        total.wait(1)
    tg.push("Reading", [(8, 3), (16, 30)])  # 3 is not: answers up to 15 are final
    tg.advance("Reading", 40)
    while (total.status()["watermark"] or 0) < 40:
        total.wait(1)

    for row in total.intervals().orderBy("valid_from").collect():
        print(f"from {row.valid_from} on: {row.total}")
    for row in tg.quarantine("Reading").collect():
        print(f"refused: {row.raw} ({row.reason})")
    tg.close()


if __name__ == "__main__":
    main()
