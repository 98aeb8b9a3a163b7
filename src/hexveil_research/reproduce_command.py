"""`hexveil reproduce`: the papers' figures and claims, made anew from this code.

Nothing here reads own records but two known sets, of which errors and counts of records are shown,
never a value; nothing is released.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hexveil.base.errors import InputError
from hexveil.cli.options import AsJson  # noqa: TC001  the parser reads annotations
from hexveil.cli.output import formatting, progress_bar
from hexveil_research.papers import files
from hexveil_research.papers.study import Setting, chosen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexveil_research.papers.running import Report
    from hexveil_research.papers.study import Claim, Study

FEW = 3
"""Studies of which every claim is said."""
FEWEST = 2
"""Trials: one has no standard error."""

Names = Annotated[
    list[str] | None,
    typer.Argument(
        help="Studies, for example iot:fig3; iot for all studies of a paper.", metavar="NAME"
    ),
]
Every = Annotated[bool, typer.Option("--all", help="All studies.")]
Listed = Annotated[bool, typer.Option("--list", help="List the studies without running any.")]
Trials = Annotated[int, typer.Option(help="Simulated releases per mechanism.", metavar="NUMBER")]
Seed = Annotated[int, typer.Option(help="Seed of the simulation.", metavar="NUMBER")]
Out = Annotated[
    Path, typer.Option(help="Folder for figures, data and claims.csv.", metavar="FOLDER")
]
Records = Annotated[
    Path | None,
    typer.Option(help=f"Folder with {' and '.join(files.RECORDS)}.", metavar="FOLDER"),
]
Jobs = Annotated[
    int | None, typer.Option(help="Number of processes. Default: one per core.", metavar="NUMBER")
]


def reproduce(  # noqa: PLR0913  the options of the command
    names: Names = None,
    *,
    every: Every = False,
    listed: Listed = False,
    trials: Trials = 10_000,
    seed: Seed = 0,
    out: Out = Path("reproduced"),
    records: Records = None,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Reproduce the papers' figures and claims, and report which claims hold.

    Finished studies in the folder are kept, so an interrupted run continues.
    """
    from hexveil_research.papers import running  # noqa: PLC0415  loads every study
    from hexveil_research.papers.catalogue import STUDIES  # noqa: PLC0415

    if listed:
        echo([listing(one) for one in STUDIES], listing_lines(STUDIES), as_json=as_json)
        return
    studies = asked(STUDIES, names or [], every=every)
    check(trials, seed, records, jobs)
    setting = Setting(trials=trials, seed=seed, records=records)
    with progress_bar.progress_bar("Reproducing") as tell:
        made = running.run(studies, setting, out, jobs=jobs or os.cpu_count() or 1, tell=tell)
    text = lines(made, out)
    found = {"studies": [result(one, out) for one in made], "claims": str(out / files.CLAIMS)}
    echo(found, text, as_json=as_json)


def echo(found: object, lines: list[str], *, as_json: bool) -> None:
    """Print a result for machines or for people."""
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False) if as_json else "\n".join(lines))


def asked(studies: Sequence[Study], names: list[str], *, every: bool) -> tuple[Study, ...]:
    """Return the studies that were asked for; refuse none, and names beside --all."""
    if every and names:
        raise InputError(f"--all and {names[0]} cannot be combined: use one of them.")
    if not every and not names:
        raise InputError("name a study, for example iot:fig3, or use --all; --list lists them.")
    return tuple(studies) if every else chosen(studies, names)


def check(trials: int, seed: int, records: Path | None, jobs: int | None) -> None:
    """Refuse numbers and folders that make no sense."""
    for name, number, least in (("trials", trials, FEWEST), ("seed", seed, 0), ("jobs", jobs, 1)):
        if number is not None and number < least:
            raise InputError(f"--{name} must be at least {least}, got {number}.")
    if records is not None and not any((records / name).is_file() for name in files.RECORDS):
        names = " nor ".join(files.RECORDS)
        raise InputError(f"{records} has neither {names}; omit --records, or name another folder.")


def listing(study: Study) -> dict[str, Any]:
    """Return a study for machines."""
    about = {"name": study.name, "place": study.place, "title": study.title}
    return about | {"simulated": study.draws, "reads_records": study.records}


def listing_lines(studies: Sequence[Study]) -> list[str]:
    """Return the names of all studies, and where each stands."""
    wide = max(len(one.name) for one in studies) + 2
    said = [f"{one.name:<{wide}}{one.place}: {one.title}" for one in studies]
    if any(one.records for one in studies):
        more = ", ".join(one.name for one in studies if one.records)
        said += ["", *formatting.wrapped("With --records", f"more detail: {more}.")]
    return said


def result(one: Report, out: Path) -> dict[str, Any]:
    """Return the results of a study as JSON data."""
    found = files.claims(out, one.study)
    return {
        "name": one.study.name,
        "folder": str(one.folder),
        "kept": one.kept,
        "claims": [{"says": claim.says, "verdict": claim.verdict} for claim in found],
    }


def lines(made: Sequence[Report], out: Path) -> list[str]:
    """Return the verdicts per study; for many studies, only the claims that fail."""
    every: list[Claim] = []
    said: list[str] = []
    for one in made:
        claims = files.claims(out, one.study)
        kept = " (made before)" if one.kept else ""
        said += [f"{one.study.name}: {one.study.title}{kept}"]
        shown = [claim for claim in claims if len(made) <= FEW or not claim.holds]
        said += [line for claim in shown for line in claim_lines(claim)]
        if held := len(claims) - len(shown):
            said += [f"  and {held} that {'holds' if held == 1 else 'hold'}"]
        every += claims
    said += ["", *formatting.wrapped("Claims", counted(every))]
    said += formatting.wrapped("Written", f"{out}: {files.CLAIMS}, and a folder per study")
    return said


def claim_lines(claim: Claim) -> list[str]:
    """Return a claim: its verdict, place, statement and measurement."""
    reading = "" if claim.reading == "as printed" else f" ({claim.reading})"
    text = f"{claim.paper} {claim.place}{reading}: {claim.says} [{claim.measured}]"
    return formatting.wrapped(f"  {claim.verdict}", text, indent=14)


def counted(claims: Sequence[Claim]) -> str:
    """Return how many claims hold, by reading.

    Examples
    --------
    >>> from hexveil_research.papers.study import Claim
    >>> counted([Claim("IOT", "Lemma V.1", "", "", holds=False),
    ...          Claim("IOT", "Lemma V.1", "", "", holds=True, reading="corrected")])
    'as printed 1 fails; corrected 1 holds'
    """
    many: Counter[tuple[str, str]] = Counter((one.reading, one.verdict) for one in claims)
    parts = []
    for reading in ("as printed", "corrected", "ours"):
        of = [
            f"{many[reading, verdict]} {one if many[reading, verdict] == 1 else several}"
            for verdict, one, several in (
                ("holds", "holds", "hold"),
                ("fails", "fails", "fail"),
                ("not tried", "was not tried", "were not tried"),
            )
            if many[reading, verdict]
        ]
        parts += [f"{reading} {', '.join(of)}"] if of else []
    return "; ".join(parts) or "none"
