"""`hexveil map`: from records to the page of a map, by at most five questions.

Names and types of columns are looked at, and who reported where and when; never a value. Every
question has a proposal and its reason. With --yes nothing is asked, so nothing may be open.
"""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path

import click

from hexveil.base.errors import InputError
from hexveil.cli import declarations, formatting, guided, questions, shared_steps
from hexveil.cli.commands.release_command import destination, release
from hexveil.config import Run, arguments
from hexveil.config.fields import option


def map(run: Run, options: declarations.MapOptions) -> None:  # noqa: A001  the command's name
    """Recognise the columns, ask what is open, propose grids, release, open the page."""
    _check_run(run, options)
    look = guided.look_at_columns(run)
    drafted = guided.drafted(run, look)
    guided.check_columns(drafted)
    asked_for = questions.open_questions(run, drafted, look)
    _check_answers(asked_for, options)
    if not options.yes:
        columns = guided.recognised(drafted).items()
        _say("Recognised", "; ".join(f"{word} {names}" for word, names in columns) + ".")
        _say("Promise", guided.UNPROTECTED)
    for question in asked_for:
        drafted = _ask(drafted, question)
    destination(drafted)
    if arguments.has_places(drafted) and "resolution" not in run.cells.explicit_fields():
        drafted = _on_proposed_grid(drafted, is_asked=not options.yes)
    if drafted.fields() != run.fields():
        drafted = _saved(drafted, options.save)
    if not options.yes:
        text = f"Release it? It {guided.price_words(drafted)}"
        if not click.confirm(text, default=False, err=True):
            raise click.Abort
    release(drafted, declarations.ReleaseOptions(as_json=options.as_json))
    page = Path(str(drafted.release.out), "report.html")
    if not options.as_json:
        formatting.print_rows([("Page", str(page))])
    if options.browser and not options.yes:
        webbrowser.open(page.resolve().as_uri())


def _check_run(run: Run, options: declarations.MapOptions) -> None:
    """Refuse runs of other kinds."""
    arguments.refuse_several(run, "map")
    if arguments.is_presence_private(run):
        raise InputError(
            'map makes maps where presence is public; for protect = "presence" complete a draft: '
            "hexveil inspect SOURCE --init --protect presence > run.toml; or hexveil studio."
        )
    if options.as_json and not options.yes:
        raise InputError("--json requires --yes: questions are asked on a terminal.")


def _check_answers(unanswered: list[questions.Question], options: declarations.MapOptions) -> None:
    """Refuse questions that nobody is there to answer."""
    missing = ", ".join(option(*question.key) for question in unanswered)
    if options.yes and missing:
        raise InputError(f"--yes guesses nothing: give {missing}, too.")
    if not options.yes and not sys.stdin.isatty():
        needed = f"give {missing} and --yes" if missing else "give --yes"
        raise InputError(
            f"map asks on a terminal. Elsewhere {needed}, or complete a draft: hexveil inspect "
            "SOURCE --init > run.toml"
        )


def _say(label: str, text: str) -> None:
    click.echo(formatting.text_of([(label, text)]), err=True)


def _ask(run: Run, question: questions.Question) -> Run:
    """Return the run with the answer to a question, which is asked until it can be read."""
    _say("", "")
    _say("Why", question.reason)
    while True:
        answer = str(click.prompt(question.text, default=question.proposal(run), err=True))
        try:
            return questions.answered(run, question, answer)
        except InputError as error:
            click.echo(str(error), err=True)


def _on_proposed_grid(run: Run, *, is_asked: bool) -> Run:
    """Return the run on one of the grids that its fleet supports: the choice, or the middle one."""
    offers = guided.offers_of(run)
    choice = next(number for number, offer in enumerate(offers, 1) if offer.is_balanced)
    if is_asked:
        _say("", "")
        for number, offer in enumerate(offers, 1):
            _say(f"Map {number}", offer.words)
    if is_asked and len(offers) > 1:
        numbers = ", ".join(str(number) for number in range(1, len(offers) + 1))
        answer, text = "", f"Which map ({numbers})"
        while answer not in numbers.split(", "):
            answer = str(click.prompt(text, default=str(choice), err=True))
        choice = int(answer)
    return offers[choice - 1].applied_to(run)


def _saved(run: Run, save: Path | None) -> Run:
    """Return the run as a new run file has it."""
    file = shared_steps.to_run_path(save) if save else Path(f"{run.ledger.dataset}.toml")
    run = guided.saved(run, file)
    _say("Run file", f"{file}: hexveil release {file} publishes the same map.")
    return run
