"""Mechanisms on one contract: a file per algorithm, with its proof; each by name, and from text.

A new mechanism is a file, and a name in `REGISTRY`. A text is never evaluated: it is read as a tree
of names and literals, and only registered names are looked up. `repr` of a mechanism is the
inverse.
"""

from __future__ import annotations

import ast
import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

from hexveil.base.errors import InputError
from hexveil.mechanisms.priors import Normal, PerUser, Uniform, UnknownRange
from hexveil.mechanisms.single_cell import CellMechanism
from hexveil.mechanisms.single_cell.array_averaging import ArrayAveraging, OptArrayAveraging
from hexveil.mechanisms.single_cell.auto import Auto
from hexveil.mechanisms.single_cell.clipped_user_sums import (
    Baseline,
    OptimalClipping,
    ThresholdMechanism,
)
from hexveil.mechanisms.single_cell.private_ranges import (
    AKMV,
    FixedQuantile,
    Levy,
    OptimizedQuantile,
)

__all__ = [
    "AKMV",
    "REGISTRY",
    "ArrayAveraging",
    "Auto",
    "Baseline",
    "CellMechanism",
    "FixedQuantile",
    "Levy",
    "OptArrayAveraging",
    "OptimalClipping",
    "OptimizedQuantile",
    "ThresholdMechanism",
    "parse",
]

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

STUDIED = {
    "Foresight": "Foresight is no longer released; use Auto(), which chooses one of the papers' "
    "mechanisms by a public prior. For studies: hexveil_research.mechanisms.foresight."
}
"""Mechanisms that plans could name before, with what to use instead."""

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
    mechanism: CellMechanism = _Text(text, distributions).built(_tree(text), REGISTRY)
    return mechanism


def _tree(text: str) -> ast.expr:
    """Return the text as a tree; nothing is run."""
    try:
        if len(text) > MAX_LENGTH:
            raise ValueError
        with warnings.catch_warnings():
            # An invalid escape in quotes would only warn, on a line of its own.
            warnings.simplefilter("error")
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, SyntaxWarning, ValueError, RecursionError, MemoryError):
        raise _unreadable(text) from None


@dataclasses.dataclass(frozen=True)
class _Text:
    """A text that is read, with the names that may stand in it."""

    text: str
    distributions: Mapping[str, type[Any]]

    @property
    def excerpt(self) -> str:
        """The text as a message shows it."""
        return self.text[:SHOWN_LENGTH]

    def built(self, tree: ast.expr, constructors: Mapping[str, type[Any]]) -> Any:  # noqa: ANN401
        """Return the object that a name, or a name with arguments, stands for."""
        call = tree if isinstance(tree, ast.Call) else ast.Call(tree, [], [])
        if not isinstance(call.func, ast.Name) or None in (word.arg for word in call.keywords):
            raise _unreadable(self.text)
        name = call.func.id
        if name in STUDIED:
            raise InputError(STUDIED[name])
        if name not in constructors:
            raise InputError(f"there is no {name!r}; available: {', '.join(constructors)}.")
        options = [field.name for field in dataclasses.fields(constructors[name])]
        positional = [self.literal(argument) for argument in call.args]
        keywords = {str(word.arg): self.literal(word.value) for word in call.keywords}
        double = set(options[: len(positional)]) & keywords.keys()
        if len(positional) > len(options) or double or not keywords.keys() <= set(options):
            raise InputError(
                f"{self.excerpt!r} has an option that {name} does not take; its options are "
                f"{', '.join(options) or 'none'}."
            )
        try:
            return constructors[name](*positional, **keywords)
        except InputError:
            raise
        # Options out of range raise InputError. These are options of a kind that no check expects,
        # and their own messages speak of code.
        except (TypeError, ValueError, AttributeError, ArithmeticError):
            raise InputError(
                f"{self.excerpt!r} has an option of another kind than {name} takes; see "
                "docs/reference/python.md."
            ) from None

    def literal(self, tree: ast.expr) -> object:
        """Return a number, word, None or tuple, a distribution or a mechanism."""
        # Nothing here is evaluated: what is not listed is refused.
        if isinstance(tree, ast.Call):
            return self.built(tree, {**self.distributions, **REGISTRY})
        if isinstance(tree, ast.Tuple):
            return tuple(self.literal(item) for item in tree.elts)
        try:
            value = ast.literal_eval(tree)
        except (ValueError, TypeError):
            raise _unreadable(self.text) from None
        if not isinstance(value, (int, float, str, type(None))):
            raise _unreadable(self.text)
        return value


def _unreadable(text: str) -> InputError:
    return InputError(
        f"a mechanism reads like Levy(gamma=0.2), got {text[:SHOWN_LENGTH]!r}; options are plain "
        "numbers or words in quotes."
    )
