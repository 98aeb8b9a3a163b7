"""`hexveil map`: from records to a map, by questions with proposals on a terminal.

With --yes nothing may be open. Before the last answer nothing is spent.
"""

import sys
import webbrowser
from pathlib import Path

import click

from hexveil.base.errors import InputError
from hexveil.cli import declarations, formatting, guided, questions
from hexveil.cli.commands.release_command import destination, release
from hexveil.cli.formatting import Row
from hexveil.config import Run, arguments
from hexveil.config.fields import option
from hexveil.publishing.folder import check_writable


def map(run: Run, options: declarations.MapOptions) -> None:  # noqa: A001  the command's name
    """Recognise the columns, ask open questions, propose grids, release, open the page."""
    _check_run(run, options)
    look = guided.look_at_columns(run, trust=options.trust_header)
    completed = guided.drafted(run, look)
    guided.check_columns(completed, look)
    file = Path(f"{completed.ledger.dataset}.toml")
    if completed.fields() != run.fields():
        guided.refuse_existing(file)
        check_writable(Path(str(completed.release.out)))
    unanswered = questions.open_questions(run, completed, look)
    questions.refuse_small_budget(completed)
    _check_answers(unanswered, options)
    if not options.yes:
        columns = guided.recognised(completed).items()
        _say("Recognised", "; ".join(f"{word} {names}" for word, names in columns) + ".")
        _say("Promise", questions.WORDS["map"]["promise"])
    for question in unanswered:
        completed = _ask(completed, question)
    destination(completed)
    if arguments.has_places(completed) and "resolution" not in run.cells.explicit_fields():
        completed = _on_proposed_grid(completed, is_asked=not options.yes)
    if is_new := completed.fields() != run.fields():
        completed = guided.saved(completed, file)
    text = f"Release it? It {guided.price_words(completed)}"
    if not (options.yes or click.confirm(text, err=True)):
        _say("Not released", f"nothing was spent; {file} keeps the answers.")
        return
    release(completed, declarations.ReleaseOptions(as_json=options.as_json))
    page = Path(str(completed.release.out), "report.html")
    if not options.as_json:
        formatting.print_rows([("Page", str(page)), *(_next_rows(completed, file) * is_new)])
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
        numbers = click.IntRange(1, len(offers))
        choice = click.prompt("Which map", default=choice, type=numbers, err=True)
    offer = offers[choice - 1]
    run = offer.applied_to(run)
    for question in questions.open_period(run, offer.days) if is_asked else ():
        run = _ask(run, question)
    return run


def _next_rows(run: Run, file: Path) -> list[Row]:
    """Return rows on what the run file is for."""
    words = {name: text.format(file=file) for name, text in questions.WORDS["map"].items()}
    return [
        ("Run file", words["again"]),
        ("Period", None if questions.states_days(run) else words["period"]),
        ("Every day", words["daily"] if run.columns.time else None),
    ]
