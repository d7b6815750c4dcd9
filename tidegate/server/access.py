"""Who may do what: tokens with roles, and which addresses a server may be bound to.

A role includes those before it: `read` looks at what runs, `ask` also asks questions of its own, `define` also makes streams and queries and hands in rows.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import Diagnostic
from tidegate.redaction import learn

ROLES = ("read", "ask", "define")
VARIABLE = "TIDEGATE_TOKENS"
SHORTEST = 16
"""Characters of a token: shorter ones can be guessed."""


def includes(role: str, needed: str) -> bool:
    """Whether a role may do what another may.

    >>> includes("define", "read"), includes("read", "ask")
    (True, False)
    """
    return ROLES.index(role) >= ROLES.index(needed)


@dataclass(frozen=True)
class Tokens:
    """Digests of tokens with their roles; without any, everybody who reaches the server may do everything."""

    known: tuple[tuple[bytes, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.known)

    def role_of(self, token: str) -> str | None:
        """The role of a token. All are compared, each in the same time: how long it takes tells nothing."""
        digest, found = _digest(token), None
        for known, role in self.known:
            if hmac.compare_digest(known, digest):
                found = role
        return found


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def tokens_of(lines: Sequence[str], where: str) -> Tokens:
    """Tokens as people write them, `role token` on each line.

    >>> bool(tokens_of(["# for the dashboard", "read 0123456789abcdef"], "here"))
    True
    """
    found = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or words[0] not in ROLES or len(words[1]) < SHORTEST:
            raise Diagnostic(
                "WRONG_TOKENS",
                f"line {number} of {where} is no role with a token",
                help=f"write `role token`: a role of {', '.join(ROLES)}, a token of at least {SHORTEST} characters",
            )
        learn("token", words[1])
        found.append((_digest(words[1]), words[0]))
    return Tokens(tuple(found))


def read_tokens(file: Path | None, environment: Mapping[str, str] | None = None) -> Tokens:
    """The tokens of a file that only its owner may read, and of the environment (`role token`, separated by commas)."""
    said = (os.environ if environment is None else environment).get(VARIABLE, "")
    found = tokens_of(said.split(","), VARIABLE).known
    if file is not None:
        try:
            mode, text = stat.S_IMODE(file.stat().st_mode), file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise Diagnostic("FILE_UNREADABLE", f"'{file}' cannot be read: {problem}") from None
        if mode & 0o077:
            raise Diagnostic(
                "WRONG_TOKENS", f"others may read '{file}', which holds tokens", help=f"chmod 600 {file}"
            )
        found += tokens_of(text.splitlines(), f"'{file}'").known
        if not found:
            raise Diagnostic(
                "WRONG_TOKENS", f"'{file}' holds no token", help="write `role token` on each line"
            )
    return Tokens(found)


def is_loopback(host: str) -> bool:
    """Whether an address is this machine's own alone.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_binding(host: str, tokens: Tokens, encrypted: bool, plain_allowed: bool) -> None:
    """Refuse to be reached from elsewhere by everybody, or with tokens that everybody on the way can read."""
    if is_loopback(host):
        return
    if not tokens:
        raise Diagnostic(
            "OPEN_TO_ALL",
            f"at {host} everybody who reaches this machine could define queries",
            help=f"give tokens (--token-file FILE, or {VARIABLE}), or stay at 127.0.0.1",
        )
    if not encrypted and not plain_allowed:
        raise Diagnostic(
            "NOT_ENCRYPTED",
            f"at {host} tokens and rows would travel in plain text",
            help="give --certificate and --key; behind a proxy that encrypts, say --plain-http",
        )
