"""Secrets that stand in statements: passwords, tokens and keys are starred out of whatever is told or written.

A secret is the value of an option whose name says so, a password in a URI, or what stands beside such a name inside a value. Stars take
as much room as what they hide, so places in a text stay what they are. What was once given as a secret is hidden wherever it
turns up again, without its name too.
"""

from __future__ import annotations

import re
from functools import lru_cache

_NAMES = (
    r"password|passwd|passphrase|pwd|secret|token|credential|api[._-]?key|access[._-]?key|account[._-]?key|private[._-]?key"
    r"|sas[._-]?key|jaas|authorization|basic[._-]?auth|auth[._-]?info|signature"
)
_NAME = rf"(?:{_NAMES})[\w.\-]{{0,40}}"
_GAP = r"(?:\s|/\*(?:[^*]|\*(?!/)){0,200}\*/|--[^\n]{0,200}\n){0,200}"
"""Between the words of a statement: columns are aligned, and comments stand anywhere."""
_IS = rf"[`\"']?{_GAP}=>?{_GAP}"
_SECRETS = (
    # WITH (… = '…'), also where the quote is not closed
    re.compile(rf"(?is){_NAME}{_IS}'((?:[^'\\]|\\.|'')*)"),
    re.compile(rf"(?is){_NAME}(?:{_IS}|[`\"']?\s{{0,9}}:\s{{0,9}})\"((?:[^\"\\]|\\.)*)"),
    # inside a value: password=…;  sig=…&
    re.compile(rf"(?i)(?:{_NAME}|\bsig){_IS}([^\s'\";&,)]+)"),
    re.compile(r"://[^\s/:@'\"]*:([^\s/'\"]+)@"),
    re.compile(r"(?i)\b(?:basic|bearer)\s{1,9}([A-Za-z0-9+/=._~-]{8,})"),
)
# Bounded repetitions, because a statement may be long: every pattern is tried from many places.
_IS_SECRET = re.compile(_NAMES, re.IGNORECASE)
SHORTEST = 4
"""Shorter texts are hidden beside their names only: alone they are parts of ordinary words."""

_known: set[str] = set()


def is_secret(name: str) -> bool:
    """Whether an option's name says that its value is nobody's business.

    >>> is_secret("kafka.sasl.jaas.config"), is_secret("fs.s3a.access.key"), is_secret("separator")
    (True, True, False)
    """
    return _IS_SECRET.search(name) is not None


def learn(name: str, value: object) -> None:
    """Remember the secrets of a value that is given for a name."""
    text = str(value)
    found = [text] if is_secret(name) else []
    found += [match[1] for pattern in _SECRETS for match in pattern.finditer(text)]
    _known.update(s for s in found if len(s) >= SHORTEST)


def masked(text: str) -> str:
    """The text with stars in the place of secrets, as long as before.

    >>> masked("CREATE STREAM S(a INT) SOURCE kafka('h:9', 't') WITH (kafka.ssl.key.password = 'sesame', format = 'csv')")
    "CREATE STREAM S(a INT) SOURCE kafka('h:9', 't') WITH (kafka.ssl.key.password = '******', format = 'csv')"
    >>> masked("mongodb://ann:sesame@host/db?token=opensesame&x=1")
    'mongodb://ann:******@host/db?token=**********&x=1'
    """
    return _masked(text, len(_known))


@lru_cache(maxsize=16)  # one script is the text of all its statements
def _masked(text: str, _: int) -> str:
    for pattern in _SECRETS:
        text = pattern.sub(_starred, text)
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, "*" * len(secret))
    return text


def _starred(match: re.Match[str]) -> str:
    start, end = match.start(1) - match.start(), match.end(1) - match.start()
    return match[0][:start] + "*" * (end - start) + match[0][end:]
