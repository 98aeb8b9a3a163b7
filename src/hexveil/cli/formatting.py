"""Printed output: rows of a label and a text, tables, numbers in words.

What a command prints is rows: a label and a text, which is left out where it is None or empty, or a
line as it is. `text_of` lays them out, here alone.
"""

from __future__ import annotations

import json
import math
import shutil
import textwrap
from typing import TYPE_CHECKING, Any

import click

from hexveil.base.rational import decimal_text
from hexveil.model.cells import Cells, Labels, OneCell
from hexveil.report.manifest_view import unit_of_statistic
from hexveil.report.templates import rounded_up

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from hexveil.ledger import Ledger, Spend
    from hexveil.ledger.accounts import Account
    from hexveil.planning.feasibility.utility_test import StatisticError


_MAX_WIDTH = 100
"""Longer lines are hard to read."""
_MIN_WIDTH = 40
"""Narrower columns would hold hardly a word beside their labels."""


Row = tuple[str, str | None] | str
"""A label with its text, or a line as it is; without a label the text takes the whole width."""


def text_of(rows: Iterable[Row], indent: int = 19) -> str:
    """Return rows as text: labelled paragraphs, later lines aligned under the first.

    Examples
    --------
    >>> print(text_of([("Ledger", "nothing is spent."), ("Warning", None), "", "# a line"]))
    Ledger             nothing is spent.
    <BLANKLINE>
    # a line
    """
    lines: list[str] = []
    for row in rows:
        label, text = ("", row) if isinstance(row, str) else row
        if isinstance(row, str):
            lines.append(row)
        elif text:
            lines += wrapped(label, text, indent if label else 0)
    return "\n".join(lines)


def show(
    rows: Callable[[], Iterable[Row]], content: Callable[[], object], *, as_json: bool
) -> None:
    """Print rows for people, or data for programs; only one of them is made."""
    click.echo(json.dumps(content(), indent=2) if as_json else text_of(rows()))


def print_rows(rows: Iterable[Row]) -> None:
    """Print rows; nothing if there is no text in them."""
    if text := text_of(rows):
        click.echo(text)


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], left: Container[str]) -> None:
    """Print a table; the columns named in `left` begin at their left edge, the others end right."""
    table = [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = zip(heads, row, widths, strict=True)
        parts = [f"{cell:{'<' if head in left else '>'}{width}}" for head, cell, width in cells]
        click.echo("  ".join(parts).rstrip())


def factor(loss: float) -> str:
    """Return the probability factor of a loss: exp(loss), rounded up.

    Examples
    --------
    >>> factor(1), factor(5), factor(30)
    ('2.72', '149', 'more than a million')
    """
    if loss > math.log(1e6):
        return "more than a million"
    return number_text(rounded_up(math.exp(loss)))


def price(loss: float) -> str:
    """Return a loss with three digits, rounded up."""
    return number_text(rounded_up(loss)) if loss > 0 else "0"


def at_least(number: float) -> str:
    """Return a lower bound with three digits, rounded down.

    Examples
    --------
    >>> at_least(9.2169), at_least(0)
    ('9.21', '0')
    """
    if number <= 0:
        return "0"
    digits = max(2 - math.floor(math.log10(number)), 0)
    return number_text(math.floor(round(number * 10.0**digits, 9)) / 10.0**digits)


def spent(spend: Spend) -> str:
    """Return the spending of this window, always together with the lifetime total."""
    this = "" if spend.kind == "lifetime" else f" this {spend.kind}"
    ever = float(spend.lifetime)
    delta_text = f" at delta {decimal_text(spend.delta)}" if spend.delta else ""
    if not ever:
        return f"nothing of {decimal_text(spend.budget)} is spent, now or in the lifetime."
    return (
        f"spent{this} {price(float(spend.window))} of {decimal_text(spend.budget)}{delta_text}, "
        f"{at_least(float(spend.remaining))} left; lifetime total at most {price(ever)} "
        f"(probability factor {factor(ever)})."
    )


def budget_words(account: Account, unit: str = "") -> str:
    """Return a budget, its unit and its window as text; `unit` in place of the pinned one."""
    refill = "lifetime" if account.window == "lifetime" else f"refilled every {account.window}"
    return f"epsilon {account.budget_text} per {unit or account.unit or 'unit'}, {refill}"


def new_account_row(book: Ledger | None, unit: str) -> Row:
    """Return that a command opened an account, with its budget; an empty row if it was there."""
    if book is None or not book.opened:
        return ("Account", None)
    budget = budget_words(book.account, unit)
    return ("Account", f"opened {book.account.name!r} with a new budget: {budget}.")


def spend_json(spend: Spend) -> dict[str, Any]:
    """Return the spending of window and lifetime as JSON data, with exact numbers as text."""
    return {
        "budget": decimal_text(spend.budget),
        "delta": decimal_text(spend.delta),
        "window": spend.kind,
        "in": spend.label or "lifetime",
        "spent": decimal_text(spend.window),
        "left": decimal_text(spend.remaining),
        "lifetime": decimal_text(spend.lifetime),
        "units": spend.units,
        "exhausted": spend.exhausted,
    }


def measured(number: float, value_unit: str) -> str:
    """Return a number with three digits and its unit of measure."""
    return f"{number_text(number)} {value_unit}".rstrip()


def number_text(number: float) -> str:
    """Return a number with three digits, without an exponent.

    Examples
    --------
    >>> number_text(1234.5), number_text(0.25), number_text(6.01e-7)
    ('1,234', '0.25', '0.000000601')
    """
    text = f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"
    if "e" not in text:
        return text
    return f"{number:.{2 - math.floor(math.log10(abs(number)))}f}".rstrip("0")


def capital(sentence: str) -> str:
    """Return a sentence with a capital letter."""
    return sentence[:1].upper() + sentence[1:]


def grid_words(grid: Cells | Labels) -> str:
    """Return the definition of a cell as text."""
    if isinstance(grid, OneCell):
        return "one cell of all records"
    if not isinstance(grid, Cells):
        return "combinations of " + ", ".join(grid.columns)
    if grid.timeslot is None:
        return f"hexagons at resolution {grid.resolution}, all times pooled"
    of_day = " of the day" if grid.slot == "pooled" and grid.timeslot != "1d" else ""
    return f"hexagons at resolution {grid.resolution} in {grid.timeslot} slots{of_day}"


def terminal_width() -> int:
    """Return the columns that text may take: the terminal's, or COLUMNS, and at most 100."""
    # Without a terminal, as in a log of a scheduler, lines have the largest width.
    columns = shutil.get_terminal_size((_MAX_WIDTH, 24)).columns
    return min(max(columns, _MIN_WIDTH), _MAX_WIDTH)


def compared_errors(errors: Sequence[StatisticError], unit: str) -> str:
    """Return the predicted error of each statistic beside that of one number for all cells."""
    texts = []
    for error in errors:
        statistic_unit = unit_of_statistic(error.statistic, unit)
        texts.append(
            f"{error.plural} off by {measured(error.error, statistic_unit)}, "
            f"one number for all cells by {measured(error.baseline_error, statistic_unit)}"
        )
    return f"{'; '.join(texts)}."


def wrapped(label: str, text: str, indent: int = 19) -> list[str]:
    """Return a labelled paragraph, its later lines aligned under its first."""
    wrap = textwrap.TextWrapper(
        terminal_width() - indent, break_long_words=False, break_on_hyphens=False
    )
    lines = wrap.wrap(text) or [""]
    return [f"{label:<{indent}}{lines[0]}", *(" " * indent + line for line in lines[1:])]
