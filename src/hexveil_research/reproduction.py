"""`hexveil reproduce`: the papers' figures and claims, made anew from this code.

Figures can be drawn of other counts and records, too: then only claims about such data are judged.
Nothing is released. Figures of values of own records say PRIVATE.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from hexveil.base.errors import InputError
from hexveil.base.work_share import tell_share
from hexveil.cli import formatting
from hexveil.config import Run
from hexveil.records.progress import show_progress
from hexveil.simulation import own_cells
from hexveil.simulation.own_cells import select_cell
from hexveil_research import written_mechanisms
from hexveil_research.cell_comparison import read_cells
from hexveil_research.figures import chosen_studies, figure_setting
from hexveil_research.papers import claim_tally, study_folders
from hexveil_research.papers.running import Report
from hexveil_research.papers.study import Claim, Setting, Study, Verdict
from hexveil_research.reproduce_command import ReproduceOptions

FOLDERS = ("reproduced", "reproduced-own")
"""Default folders: of the papers' own settings, and of others."""
REPRODUCING = "Reproducing"
"""Name of this work, of which parts are told."""
MAX_DETAILED = 3
"""Studies of which every claim is said."""
MIN_TRIALS = 2
"""Trials: one has no standard error."""


def reproduce(run: Run, options: ReproduceOptions) -> None:
    """Reproduce the papers' figures and claims, and report which claims hold."""
    from hexveil_research.papers import running  # noqa: PLC0415  loads every study
    from hexveil_research.papers.catalogue import STUDIES  # noqa: PLC0415

    if options.list_only:
        echo([listing(study) for study in STUDIES], listing_lines(STUDIES), as_json=options.as_json)
        return
    check_names(options.names, every=options.every)
    check(options.trials, options.seed, options.jobs)
    setting = setting_of(
        run,
        options.cell,
        counts=options.counts,
        built_in=options.built_in,
        values=None if options.values is None else written_mechanisms.values(options.values),
        bounds=run.values.bounds,
        epsilons=None
        if not options.epsilon
        else [e for text in options.epsilon for e in text.split(",")],
        gamma=options.gamma,
        q=options.q,
        scale=options.scale,
        trials=options.trials,
        seed=options.seed,
    )
    studies = chosen_studies(STUDIES, options.names, setting)
    place = options.out or Path(FOLDERS[not setting.is_papers])
    tell = partial(tell_share, REPRODUCING)
    with show_progress(REPRODUCING):
        # The number of cores is unknown on some systems.
        reports = running.run(
            studies, setting, place, jobs=options.jobs or os.cpu_count() or 1, tell=tell
        )
    private = any(study.is_private(setting) for study in studies)
    output = {
        "studies": [result(report, place) for report in reports],
        "claims": str(place / study_folders.CLAIMS),
    }
    if not setting.is_papers:
        del output["claims"]
    stamp = f"{own_cells.STAMP} {own_cells.NOT_COVERED}"
    text = lines(reports, place) if setting.is_papers else figure_lines(reports, place)
    echo(
        ({"private": stamp} if private else {}) | output,
        ([stamp, ""] if private else []) + text,
        as_json=options.as_json,
    )


def setting_of(run: Run, cell: str | None, **options: Any) -> Setting:  # noqa: ANN401
    """Return the setting of the figures; own records are read."""
    if not run.source:
        if cell is not None:
            raise InputError("--cell needs --records: name the records of the cell, or omit it.")
        return figure_setting(**options)
    for name in ("counts", "built_in"):
        if options[name] is not None:
            option = "--built-in" if name == "built_in" else f"--{name}"
            raise InputError(f"{option} and --records cannot be combined: use one of them.")
    data = read_cells(run)
    number = None if cell is None else select_cell(data.public.cells, cell)
    return figure_setting(data=data, cell=number, **options | {"bounds": None})


def figure_lines(reports: Sequence[Report], out: Path) -> list[str]:
    """Return the figures that were drawn of other data, and claims that these data judge."""
    text_lines: list[str] = []
    for report in reports:
        suffix = " (made before)" if report.reused else ""
        text_lines.append(f"{report.study.name}: {report.study.place}{suffix}")
        text_lines += [
            line for claim in study_folders.claims(out, report.study) for line in claim_lines(claim)
        ]
    note = "those of the papers' own settings are not judged on other data"
    return [
        *text_lines,
        "",
        *formatting.wrapped("Claims", note),
        *formatting.wrapped("Written", f"{out}: a folder per figure"),
    ]


def echo(output: object, lines: list[str], *, as_json: bool) -> None:
    """Print a result for machines or for people."""
    click.echo(json.dumps(output, indent=2, ensure_ascii=False) if as_json else "\n".join(lines))


def check_names(names: Sequence[str], *, every: bool) -> None:
    """Refuse no study, and names beside --all."""
    if every and names:
        raise InputError(f"--all and {names[0]} cannot be combined: use one of them.")
    if not every and not names:
        raise InputError("name a study, for example iot:fig3, or use --all; --list lists them.")


def check(trials: int, seed: int, jobs: int | None) -> None:
    """Refuse numbers that make no sense."""
    for name, number, smallest in (
        ("trials", trials, MIN_TRIALS),
        ("seed", seed, 0),
        ("jobs", jobs, 1),
    ):
        if number is not None and number < smallest:
            raise InputError(f"--{name} must be at least {smallest}, got {number}.")


def listing(study: Study) -> dict[str, Any]:
    """Return a study for machines."""
    about = {"name": study.name, "place": study.place, "title": study.title}
    return about | {"simulated": study.draws, "own_data": study.altered, "values": study.values}


def listing_lines(studies: Sequence[Study]) -> list[str]:
    """Return the names of all studies, and where each stands."""
    wide = max(len(study.name) for study in studies) + 2
    rows = [f"{study.name:<{wide}}{study.place}: {study.title}" for study in studies]
    if fixed := [study.name for study in studies if not study.altered]:
        rows += ["", *formatting.wrapped("Own data", f"for all but {', '.join(fixed)}.")]
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
            claim for claim in claims if len(reports) <= MAX_DETAILED or claim.verdict != "holds"
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
        ("undecided", "is undecided", "are undecided"),
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
