"""Mechanisms on one contract: a file per algorithm, with its proof; each by name, and from text.

A new mechanism is a file, and a name in `REGISTRY`. A text is never evaluated: it is read as a tree
of names and literals, and only registered names are looked up. `repr` of a mechanism is the
inverse.
"""

import ast
import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

from hexveil.base.errors import InputError
from hexveil.mechanisms.priors import Normal, PerUser, Uniform, UnknownRange
from hexveil.mechanisms.single_cell import CellMechanism as CellMechanism
from hexveil.mechanisms.single_cell.array_averaging import ArrayAveraging as ArrayAveraging
from hexveil.mechanisms.single_cell.array_averaging import OptArrayAveraging as OptArrayAveraging
from hexveil.mechanisms.single_cell.auto import Auto as Auto
from hexveil.mechanisms.single_cell.clipped_user_sums import Baseline as Baseline
from hexveil.mechanisms.single_cell.clipped_user_sums import OptimalClipping as OptimalClipping
from hexveil.mechanisms.single_cell.clipped_user_sums import (
    ThresholdMechanism as ThresholdMechanism,
)
from hexveil.mechanisms.single_cell.private_ranges import AKMV as AKMV
from hexveil.mechanisms.single_cell.private_ranges import FixedQuantile as FixedQuantile
from hexveil.mechanisms.single_cell.private_ranges import Levy as Levy
from hexveil.mechanisms.single_cell.private_ranges import OptimizedQuantile as OptimizedQuantile

MAX_LENGTH = 1000
"""Letters of a mechanism; a longer text is not one."""

SHOWN_LENGTH = 200
"""Letters of it in a message."""

REGISTRY: dict[str, type[CellMechanism]] = {
    kind.__name__: kind
    for kind in (
        *(Baseline, ArrayAveraging, OptArrayAveraging, Levy, FixedQuantile, OptimizedQuantile),
        *(OptimalClipping, AKMV, Auto),
    )
}
"""Every mechanism of one cell."""

__all__ = list(REGISTRY)
__all__ += ["REGISTRY", "CellMechanism", "ThresholdMechanism", "parse"]

PRIORS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Normal, Uniform, UnknownRange, PerUser)
}
"""Distributions that an option of a mechanism may name."""


def parse(text: str, distributions: Mapping[str, type[Any]] = PRIORS) -> CellMechanism:
    """Return the mechanism that is written as in a table, like "Levy(gamma=0.2)".

    A name alone has every option at its default.

    Parameters
    ----------
    text : str
    distributions : mapping of str to class
        Distributions that may stand in an option.

    Raises
    ------
    InputError
        If there is no such mechanism or option, or an option's value is out of range.

    Examples
    --------
    >>> parse("Levy(gamma=0.2)"), parse("Baseline")
    (Levy(gamma=0.2), Baseline())
    """
    if len(text) > MAX_LENGTH:
        raise _unreadable(text)
    names = {**distributions, **REGISTRY}
    mechanism: CellMechanism = _built(text, _tree(text), REGISTRY, names)
    return mechanism


def _tree(text: str) -> ast.expr:
    """Return the text as a tree; nothing is run."""
    try:
        with warnings.catch_warnings():
            # An invalid escape in quotes would only warn, on a line of its own.
            warnings.simplefilter("error")
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, SyntaxWarning, ValueError, RecursionError, MemoryError):
        raise _unreadable(text) from None


def _built(
    text: str, tree: ast.expr, kinds: Mapping[str, type[Any]], names: Mapping[str, type[Any]]
) -> Any:  # noqa: ANN401
    """Return the object of these kinds that a name, or a name with arguments, stands for."""
    call = tree if isinstance(tree, ast.Call) else ast.Call(tree, [], [])
    if not isinstance(call.func, ast.Name) or None in (word.arg for word in call.keywords):
        raise _unreadable(text)
    name = call.func.id
    if name not in kinds:
        raise InputError(f"there is no {name!r}; available: {', '.join(kinds)}.")
    options = [field.name for field in dataclasses.fields(kinds[name])]
    positional = [_literal(text, argument, names) for argument in call.args]
    keywords = {str(word.arg): _literal(text, word.value, names) for word in call.keywords}
    double = set(options[: len(positional)]) & keywords.keys()
    if len(positional) > len(options) or double or not keywords.keys() <= set(options):
        raise InputError(
            f"{text[:SHOWN_LENGTH]!r} has an option that {name} does not take; its options are "
            f"{', '.join(options) or 'none'}."
        )
    try:
        return kinds[name](*positional, **keywords)
    except InputError:
        raise
    # Options out of range raise InputError. These are options of a kind that no check expects,
    # and their own messages speak of code.
    except (TypeError, ValueError, AttributeError, ArithmeticError):
        raise InputError(
            f"{text[:SHOWN_LENGTH]!r} has an option of another kind than {name} takes; see "
            "docs/reference/python.md."
        ) from None


def _literal(text: str, tree: ast.expr, names: Mapping[str, type[Any]]) -> object:
    """Return a number, word, None or tuple, a distribution or a mechanism."""
    # Nothing here is evaluated: what is not listed is refused.
    if isinstance(tree, ast.Call):
        return _built(text, tree, names, names)
    if isinstance(tree, ast.Tuple):
        return tuple(_literal(text, item, names) for item in tree.elts)
    try:
        value = ast.literal_eval(tree)
    except (ValueError, TypeError):
        raise _unreadable(text) from None
    if not isinstance(value, (int, float, str, type(None))):
        raise _unreadable(text)
    return value


def _unreadable(text: str) -> InputError:
    return InputError(
        f"a mechanism reads like Levy(gamma=0.2), got {text[:SHOWN_LENGTH]!r}; options are plain "
        "numbers or words in quotes."
    )
