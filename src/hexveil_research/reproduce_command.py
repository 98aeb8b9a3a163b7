"""`hexveil reproduce` with its options; its body: `reproduction`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

import typer

from hexveil.cli.options import RunDeclaration

# The command stands in the folder of its run file when a path is used.
_PATH = {"resolve_path": True}


class ReproduceOptions(RunDeclaration):
    """Reproduce the papers' figures and claims, and report which claims hold.

    With own counts or records, another built-in set or other numbers the figures are drawn of
    these. An interrupted run continues.
    """

    home = "hexveil_research.reproduction"
    example = "hexveil reproduce iot:fig3 --trials 1000"
    left_out: ClassVar[tuple[str, ...]] = ("plan", "release", "publish", "ledger")
    source: ClassVar[object] = Annotated[
        str | None,
        typer.Option(
            "--records", help="Own records: a file or folder, or a run file.", metavar="PATH"
        ),
    ]

    names: Annotated[
        list[str] | None,
        typer.Argument(help="Studies, such as iot:fig3; iot for all of a paper.", metavar="NAME"),
    ] = None
    every: Annotated[bool, typer.Option("--all", help="All studies.")] = False
    list_only: Annotated[
        bool, typer.Option("--list", help="List the studies without running any.")
    ] = False
    counts: Annotated[
        Path | None,
        typer.Option(help="Samples per user, or columns cell, user, n.", metavar="FILE", **_PATH),
    ] = None
    built_in: Annotated[
        str | None, typer.Option(help="Built-in set: itms, synthetic or surat.", metavar="NAME")
    ] = None
    cell: Annotated[
        str | None,
        typer.Option(help="Cell of the records. [default: that of most users]", metavar="TEXT"),
    ] = None
    values: Annotated[
        str | None,
        typer.Option(help="Other values, such as normal:20,10.", metavar="KIND:NUMBER,..."),
    ] = None
    epsilon: Annotated[
        list[str] | None,
        typer.Option(help="Values of epsilon, for example 0.5,1,2.", metavar="NUMBER,..."),
    ] = None
    gamma: Annotated[
        int | None,
        typer.Option(help="COMP: factor 1 + gamma of the largest counts.", metavar="NUMBER"),
    ] = None
    q: Annotated[
        float | None,
        typer.Option(
            "--q", help="COMP: of the geometric counts. [default: 0.01]", metavar="NUMBER"
        ),
    ] = None
    scale: Annotated[
        int | None,
        typer.Option(help="λ of sample and user scaling. [default: 10]", metavar="NUMBER"),
    ] = None
    trials: Annotated[int, typer.Option(help="Simulations per mechanism.", metavar="NUMBER")] = (
        10_000
    )
    seed: Annotated[int, typer.Option(help="Seed of the simulation.", metavar="NUMBER")] = 0
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for figures, data and claims.csv.", metavar="FOLDER", **_PATH),
    ] = None
    jobs: Annotated[
        int | None,
        typer.Option(help="Number of processes. Default: one per core.", metavar="NUMBER"),
    ] = None


DECLARED = ReproduceOptions
