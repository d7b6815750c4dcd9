"""What the generator leaves out until the engine keeps the law that is named; empty when all are kept."""

from __future__ import annotations

NAN_KEYS = "NaN equals itself, also as a key (SPEC 3): DISTINCT, KEY, PARTITION BY, SESSION"
BATCHED_TS = "TS is the instant also where a stream has batches (SPEC 4, 5), on Spark"
FIRST_LAST = "FIRST and LAST go by time, then by order of arrival (SPEC 3)"
STARTING_AT = "slides are aligned to STARTING AT where it is said (SPEC 9)"

PENDING = frozenset({FIRST_LAST})
