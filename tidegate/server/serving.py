"""The process: the script is run, the interface opened, and at SIGTERM or Ctrl-C everything comes to its end in order."""

from __future__ import annotations

import logging
import signal
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.errors import Diagnostic
from tidegate.policy import Policy
from tidegate.server.access import Tokens, check_binding
from tidegate.server.logs import EpochLog, begin_logs
from tidegate.session import Session

LOG = logging.getLogger("tidegate.server")

PATIENCE = 10
"""Seconds that answers under way have to come to their end."""


@dataclass(frozen=True)
class Address:
    """Where a server listens, and how what it says is encrypted."""

    host: str = "127.0.0.1"
    port: int = 8484
    certificate: Path | None = None
    key: Path | None = None
    plain_allowed: bool = False

    def check(self, tokens: Tokens) -> None:
        """Refuse what would be open to everybody, and files that are no certificate."""
        if (self.certificate is None) != (self.key is None):
            raise Diagnostic(
                "WRONG_ARGUMENTS", "a certificate needs its key", help="--certificate FILE --key FILE"
            )
        check_binding(self.host, tokens, self.certificate is not None, self.plain_allowed)
        if self.certificate is not None and self.key is not None:
            try:
                ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                    self.certificate, self.key
                )
            except (OSError, ssl.SSLError) as problem:
                raise Diagnostic(
                    "FILE_UNREADABLE",
                    f"'{self.certificate}' and '{self.key}' are no certificate with its key: {problem}",
                ) from None

    @property
    def url(self) -> str:
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def serve(
    session: Session,
    script: str,
    state: str | None,
    address: Address,
    tokens: Tokens,
    policy: Policy,
    level: str,
) -> None:
    """Run a script, and answer until a signal comes."""
    try:
        import uvicorn

        from tidegate.server.app import application
        from tidegate.server.host import Host
    except ModuleNotFoundError as missing:
        raise Diagnostic(
            "PACKAGE_MISSING", f"{missing.name} is not installed", help="pip install 'tidegate[server]'"
        ) from None
    address.check(tokens)
    begin_logs(level)
    session.live, session.here = True, True
    host = Host(session, policy, state)
    host.begin(script)
    app = application(host, tokens)

    config = uvicorn.Config(
        app,
        host=address.host,
        port=address.port,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=PATIENCE,
        h11_max_incomplete_event_size=64 << 10,
    )
    epochs = EpochLog(session.running)
    epochs.start()
    LOG.info("listening", extra={"fields": {"url": address.url, "queries": session.queries()}})
    try:
        _orderly(config, app.state.streams.close).run()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        epochs.stop()
        session.close()
        LOG.info("stopped")


def _orderly(config: Any, closing: Callable[[], None]) -> Any:
    """A server that comes to its end at a signal, and lets the program go on after it."""
    import uvicorn

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            # Its own way sends the signal again when it has ended, and nothing would be finished.
            def end(*_: Any) -> None:
                self.should_exit = True
                closing()

            before = {s: signal.signal(s, end) for s in (signal.SIGTERM, signal.SIGINT)}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, signal.SIG_IGN if number == signal.SIGINT else handler)

    return Server(config)
