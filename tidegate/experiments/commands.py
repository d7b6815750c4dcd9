"""`tidegate experiment …`: the papers' experiments, done again on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

experiment = typer.Typer(help="Do the papers' experiments again.", no_args_is_help=True)
console = Console()


@experiment.command()
def nile(
    page: Annotated[
        Path | None, typer.Option(help="A Markdown page to write figures and tables into.")
    ] = None,
    scale: Annotated[
        float, typer.Option(min=0.05, help="How long the streams are; 1: as on the page.")
    ] = 1.0,
) -> None:
    """Ways to undo what leaves a window: delays, tuples in the pipeline, capacity."""
    from tidegate.experiments.nile_page import claims, measured, write

    results = measured(scale, lambda text: console.print(text, markup=False))
    for claim in claims(results) if page is None else write(page, results):
        console.print(
            f"{'holds' if claim.holds else 'does not hold'}: {claim.claim} ({claim.paper}): {claim.measured}",
            markup=False,
        )
