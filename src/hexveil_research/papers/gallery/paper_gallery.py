"""The gallery of the papers' figures.

Run it with `python -m hexveil_research.papers.gallery.paper_gallery DOCS`.

Draws every figure of the four papers on the simulated and synthetic sets, reads no records, and
writes into a folder of documentation: pictures, the data behind them, all claims, and the page that
shows them. With `--redraw` it draws the pictures from the data that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hexveil.base import atomic_files
from hexveil.base.errors import HexveilError
from hexveil.report import figure_style
from hexveil_research.papers import claim_tally, drawing, study_folders
from hexveil_research.papers.gallery import gallery_data, gallery_words
from hexveil_research.papers.gallery.gallery_data import Figures, Row
from hexveil_research.papers.study import Setting, Study
from hexveil_research.pictures import svg_files

PAPERS = ("iot", "rw", "comp", "wc")
TRIALS = 1000
"""Simulated releases per mechanism and cell: enough for a picture, with ten cells each."""
PAGE = Path("understand", "paper-figures.md")
DATA = Path("figures", "paper-figures.json")
CLAIMS = Path("figures", "paper-claims.csv")


def studies() -> tuple[Study, ...]:
    """Return the studies of the four papers."""
    from hexveil_research.papers.catalogue import STUDIES  # noqa: PLC0415  loads every study

    return tuple(study for study in STUDIES if study.name.split(":")[0] in PAPERS)


def picture(name: str) -> Path:
    """Return the file of a figure's picture.

    Examples
    --------
    >>> picture("iot:fig3").name
    'paper-iot-fig3.svg'
    """
    return Path("images", f"paper-{name.replace(':', '-')}.svg")


def make(docs: Path, work: Path, jobs: int = 1) -> None:
    """Write the gallery into a folder of documentation; the full results go to another."""
    from hexveil_research.papers import running  # noqa: PLC0415  loads every study

    made = studies()
    running.run(made, Setting(trials=TRIALS), work, jobs=jobs)
    figures = gallery_data.figures_of(work, made)
    draw(docs, figures)
    rows = [row for study in made for row in study_folders.claim_rows(work, study)]
    atomic_files.write(docs / DATA, gallery_data.text_of(figures).encode())
    atomic_files.write(docs / CLAIMS, study_folders.claims_csv(rows))
    atomic_files.write(docs / PAGE, page(rows, made).encode())


def draw(docs: Path, figures: Figures) -> None:
    """Write the picture of each figure from its data."""
    for name, figure in figures.items():
        outcome = gallery_data.outcome_of(figure)
        with figure_style.style():
            svg_files.save(drawing.draw(figure["title"], outcome), docs / picture(name))


def page(rows: Sequence[Row], shown: Sequence[Study]) -> str:
    """Return the page: the tally, every figure with its claims, and what fails elsewhere.

    Without claims it has the figures and their words alone.
    """
    figures = [study for study in shown if study.name in gallery_words.FIGURES]
    elsewhere = [
        row
        for row in rows
        if row["study"] not in gallery_words.FIGURES and row["verdict"] != "holds"
    ]
    text = [gallery_words.HEAD.format(trials=f"{TRIALS:,}")]
    if rows:
        text.append(gallery_words.TALLY.format(tally=tally(rows), failures=failures(rows)))
    for study in figures:
        text += figure_lines(study, [row for row in rows if row["study"] == study.name])
    if elsewhere:
        text += [gallery_words.ELSEWHERE, *table(elsewhere, placed=True), ""]
    return "\n".join([*text, gallery_words.END])


def tally(rows: Sequence[Row]) -> str:
    """Return a table of the distinct statements, by kind and verdict."""
    return claim_tally.markdown_table([study_folders.claim_of(row) for row in rows])


def failures(rows: Sequence[Row]) -> str:
    """Return a list of all that the papers print and that fails, with the errata."""
    return claim_tally.failure_list([study_folders.claim_of(row) for row in rows])


def figure_lines(study: Study, rows: Sequence[Row]) -> list[str]:
    """Return a figure's part of the page."""
    words = gallery_words.FIGURES[study.name]
    return [
        f"## {study.place}",
        "",
        f"![{study.title}](../{picture(study.name).as_posix()})",
        "",
        f"**The paper:** {words.paper}",
        "",
        f"**Here:** {words.result}",
        "",
        *([*table(rows), ""] if rows else []),
    ]


def table(rows: Sequence[Row], *, placed: bool = False) -> list[str]:
    """Return claims as a table of Markdown, with their places if they stand without a figure."""
    head = ("claim", "reading", "verdict", "measured")
    names = ("paper and place", *head) if placed else head
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for row in rows:
        cells = {name: _escaped(row[name]) for name in ("claim", "reading", "verdict", "measured")}
        if row["verdict"] == "fails":
            cells["verdict"] = "**fails**"
        place = [_escaped(f"{row['paper']}, {row['place']}")] if placed else []
        lines.append(f"| {' | '.join([*place, *cells.values()])} |")
    return lines


def _escaped(text: str) -> str:
    """Return text that a table of Markdown shows as it is."""
    return "".join(f"\\{letter}" if letter in "|*_<>[]$" else letter for letter in text)


def main(words: list[str] | None = None) -> None:
    """Write the gallery into the folder that is named."""
    parser = argparse.ArgumentParser(prog="paper_gallery", description=__doc__)
    parser.add_argument("docs", type=Path, help="folder of the documentation")
    parser.add_argument("--redraw", action="store_true", help="from the data that are there")
    parser.add_argument("--work", type=Path, help="keep the full results here")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    arguments = parser.parse_args(words)
    figure_style.check_installed()
    if arguments.redraw:
        draw(arguments.docs, json.loads((arguments.docs / DATA).read_text("utf-8")))
        return
    with tempfile.TemporaryDirectory() as scratch:
        make(arguments.docs, arguments.work or Path(scratch), arguments.jobs)


if __name__ == "__main__":
    try:
        main()
    except (HexveilError, OSError) as error:
        sys.exit(str(error))
