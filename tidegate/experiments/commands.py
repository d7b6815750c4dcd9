"""`tidegate experiment …`: the papers' experiments, done again on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from tidegate.experiments.nile_page import Claim

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
    _tell(claims(results) if page is None else write(page, results))


@experiment.command()
def pipes(
    page: Annotated[
        Path | None, typer.Option(help="A Markdown page to write figures and tables into.")
    ] = None,
    scale: Annotated[
        float, typer.Option(min=0.05, help="How fast the streams are; 1: as on the page.")
    ] = 1.0,
) -> None:
    """Windows and granules that are chosen, and plans that are replaced while they run: memory, processor, output rate."""
    from tidegate.experiments import migrations_page, resources

    say = lambda text: console.print(text, markup=False)  # noqa: E731
    usages = resources.measured(scale, say)
    courses = migrations_page.measured(scale, say)
    if page is None:
        told = resources.claims(usages) + migrations_page.claims(*courses)
    else:
        told = resources.write(page, usages) + migrations_page.write(page, *courses)
    _tell(told)


def _tell(claims: Iterable[Claim]) -> None:
    for claim in claims:
        console.print(
            f"{'holds' if claim.holds else 'does not hold'}: {claim.claim} ({claim.paper}): {claim.measured}",
            markup=False,
        )
