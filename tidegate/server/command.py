"""`tidegate serve`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tidegate import policy
from tidegate.policy import Policy
from tidegate.terminal.options import (
    Conf,
    Master,
    Packages,
    Partitions,
    ScriptOrNone,
    State,
    Verbose,
    conf_of,
    packages_of,
    text_of_script,
)

TokenFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Tokens, `role token` on each line: read, ask or define.")
]
Readable = Annotated[
    list[str] | None, typer.Option(help="Statements of others may read files below this directory.")
]
Writable = Annotated[
    list[str] | None, typer.Option(help="Statements of others may write files below this directory.")
]
Allowed = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND:NAME", help="Statements of others may use source:NAME, sink:NAME or variable:NAME."
    ),
]


def serve(
    script: ScriptOrNone = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen at.")] = 8484,
    state: State = None,
    token_file: TokenFile = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A certificate (PEM): speak HTTPS.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The key of the certificate (PEM).")
    ] = None,
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Listen elsewhere than at loopback without encryption.")
    ] = False,
    read: Readable = None,
    write: Writable = None,
    allow: Allowed = None,
    log_level: Annotated[
        str, typer.Option(help="debug, info (a line for each epoch), warning or error.")
    ] = "info",
    epoch: Annotated[float | None, typer.Option(help="Seconds from one epoch to the next.")] = None,
    master: Master = None,
    partitions: Partitions = None,
    packages: Packages = None,
    conf: Conf = None,
    verbose: Verbose = False,
) -> None:
    """Run a script's queries as a service, and let others ask by HTTP."""
    from tidegate.server.access import read_tokens
    from tidegate.server.serving import Address
    from tidegate.server.serving import serve as run
    from tidegate.session import connect

    tokens = read_tokens(token_file)
    address = Address(host, port, certificate, key, plain_http)
    address.check(tokens)
    text = "" if script is None else text_of_script(script)
    rules = policy_for_others(read, write, allow)
    session = connect(
        master=master,
        state=state,
        partitions=partitions,
        verbose=verbose,
        packages=packages_of(packages),
        conf=conf_of(conf),
    )
    session.epoch = epoch
    run(session, text, state, address, tokens, rules, log_level)


def policy_for_others(read: list[str] | None, write: list[str] | None, allow: list[str] | None) -> Policy:
    """What statements that come over the network may reach.

    >>> policy_for_others(None, None, ["source:kafka"]).sources
    frozenset({'kafka'})
    """
    from tidegate.errors import Diagnostic

    found = policy.closed(read or (), write or ())
    for said in allow or ():
        kind, _, name = said.partition(":")
        if kind not in ("source", "sink", "variable") or not name:
            raise Diagnostic(
                "WRONG_ARGUMENTS",
                f"'{said}' names nothing that could be allowed",
                help="as in --allow source:kafka, --allow sink:console, --allow variable:BROKERS",
            )
        if kind == "variable":
            found = replace(found, variables=(found.variables or frozenset()) | {name})
        else:
            found = found.with_connector("source" if kind == "source" else "sink", name)
    return found
