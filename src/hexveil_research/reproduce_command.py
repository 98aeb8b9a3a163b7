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
from hexveil_research.papers import claim_tally, study_folders
from hexveil_research.papers.study import Setting, select_studies

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexveil_research.papers.running import Report
    from hexveil_research.papers.study import Claim, Study, Verdict

MAX_DETAILED = 3
"""Studies of which every claim is said."""
MIN_TRIALS = 2
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
    typer.Option(help=f"Folder with {' and '.join(study_folders.RECORDS)}.", metavar="FOLDER"),
]
Jobs = Annotated[
    int | None, typer.Option(help="Number of processes. Default: one per core.", metavar="NUMBER")
]


def reproduce(  # noqa: PLR0913  the options of the command
    names: Names = None,
    *,
    every: Every = False,
    list_only: Listed = False,
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

    if list_only:
        echo([listing(study) for study in STUDIES], listing_lines(STUDIES), as_json=as_json)
        return
    studies = requested_studies(STUDIES, names or [], every=every)
    check(trials, seed, records, jobs)
    setting = Setting(trials=trials, seed=seed, records=records)
    with progress_bar.progress_bar("Reproducing") as tell:
        # The number of cores is unknown on some systems.
        reports = running.run(studies, setting, out, jobs=jobs or os.cpu_count() or 1, tell=tell)
    text = lines(reports, out)
    output = {
        "studies": [result(report, out) for report in reports],
        "claims": str(out / study_folders.CLAIMS),
    }
    echo(output, text, as_json=as_json)


def echo(output: object, lines: list[str], *, as_json: bool) -> None:
    """Print a result for machines or for people."""
    typer.echo(json.dumps(output, indent=2, ensure_ascii=False) if as_json else "\n".join(lines))


def requested_studies(
    studies: Sequence[Study], names: list[str], *, every: bool
) -> tuple[Study, ...]:
    """Return the studies that were asked for; refuse none, and names beside --all."""
    if every and names:
        raise InputError(f"--all and {names[0]} cannot be combined: use one of them.")
    if not every and not names:
        raise InputError("name a study, for example iot:fig3, or use --all; --list lists them.")
    return tuple(studies) if every else select_studies(studies, names)


def check(trials: int, seed: int, records: Path | None, jobs: int | None) -> None:
    """Refuse numbers and folders that make no sense."""
    for name, number, smallest in (
        ("trials", trials, MIN_TRIALS),
        ("seed", seed, 0),
        ("jobs", jobs, 1),
    ):
        if number is not None and number < smallest:
            raise InputError(f"--{name} must be at least {smallest}, got {number}.")
    # Refused here, and not by a study that begins many minutes later.
    if records is not None and not any(
        (records / name).is_file() for name in study_folders.RECORDS
    ):
        names = " nor ".join(study_folders.RECORDS)
        raise InputError(f"{records} has neither {names}; omit --records, or name another folder.")


def listing(study: Study) -> dict[str, Any]:
    """Return a study for machines."""
    about = {"name": study.name, "place": study.place, "title": study.title}
    return about | {"simulated": study.draws, "reads_records": study.records}


def listing_lines(studies: Sequence[Study]) -> list[str]:
    """Return the names of all studies, and where each stands."""
    wide = max(len(study.name) for study in studies) + 2
    rows = [f"{study.name:<{wide}}{study.place}: {study.title}" for study in studies]
    if any(study.records for study in studies):
        detailed = ", ".join(study.name for study in studies if study.records)
        rows += ["", *formatting.wrapped("With --records", f"more detail: {detailed}.")]
    return rows


def result(report: Report, out: Path) -> dict[str, Any]:
    """Return the results of a study as JSON data."""
    study_claims = study_folders.claims(out, report.study)
    return {
        "name": report.study.name,
        "folder": str(report.folder),
        "kept": report.reused,
        "claims": [{"says": claim.says, "verdict": claim.verdict} for claim in study_claims],
    }


def lines(reports: Sequence[Report], out: Path) -> list[str]:
    """Return the verdicts per study; for many studies, only the claims that fail."""
    every: list[Claim] = []
    text_lines: list[str] = []
    for report in reports:
        claims = study_folders.claims(out, report.study)
        suffix = " (made before)" if report.reused else ""
        text_lines += [f"{report.study.name}: {report.study.title}{suffix}"]
        listed_claims = [
            claim for claim in claims if len(reports) <= MAX_DETAILED or not claim.holds
        ]
        text_lines += [line for claim in listed_claims for line in claim_lines(claim)]
        if n_hidden := len(claims) - len(listed_claims):
            text_lines += [f"  and {n_hidden} that {'holds' if n_hidden == 1 else 'hold'}"]
        every += claims
    text_lines += ["", *formatting.wrapped("Claims", count_summary(every))]
    text_lines += formatting.wrapped("Statements", statement_summary(every))
    text_lines += formatting.wrapped(
        "Written", f"{out}: {study_folders.CLAIMS}, and a folder per study"
    )
    return text_lines


def claim_lines(claim: Claim) -> list[str]:
    """Return a claim: its verdict, place, statement and measurement."""
    reading = "" if claim.reading == "as printed" else f" ({claim.reading})"
    text = f"{claim.paper} {claim.place}{reading}: {claim.says} [{claim.measured}]"
    return formatting.wrapped(f"  {claim.verdict}", text, indent=14)


def statement_summary(claims: Sequence[Claim]) -> str:
    """Return how many distinct statements hold, by kind.

    Examples
    --------
    >>> from hexveil_research.papers.study import Claim
    >>> statement_summary([Claim("IOT", "Lemma V.1", "", "", holds=False)])
    'as printed 1 fails'
    """
    return (
        "; ".join(
            f"{claim_tally.KINDS[name]} {_verdict_counts(counter)}"
            for name, counter in claim_tally.tally(claims).items()
        )
        or "none"
    )


def _verdict_counts(counter: Mapping[Verdict, int]) -> str:
    """Return the numbers of each verdict, in words."""
    words: tuple[tuple[Verdict, str, str], ...] = (
        ("holds", "holds", "hold"),
        ("fails", "fails", "fail"),
        ("not tried", "was not tried", "were not tried"),
    )
    return ", ".join(
        f"{counter[verdict]} {singular if counter[verdict] == 1 else several}"
        for verdict, singular, several in words
        if counter[verdict]
    )


def count_summary(claims: Sequence[Claim]) -> str:
    """Return how many claims hold, by reading.

    Examples
    --------
    >>> from hexveil_research.papers.study import Claim
    >>> count_summary([Claim("IOT", "Lemma V.1", "", "", holds=False),
    ...                Claim("IOT", "Lemma V.1", "", "", holds=True, reading="corrected")])
    'as printed 1 fails; corrected 1 holds'
    """
    many: Counter[tuple[str, Verdict]] = Counter((claim.reading, claim.verdict) for claim in claims)
    summaries = []
    for reading in ("as printed", "corrected", "ours"):
        verdicts = Counter({verdict: n for (r, verdict), n in many.items() if r == reading})
        summaries += [f"{reading} {_verdict_counts(verdicts)}"] if verdicts else []
    return "; ".join(summaries) or "none"
