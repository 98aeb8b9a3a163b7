"""Mechanisms and values as a person writes them on a command line.

What is written is never evaluated: it is read as a tree of names and plain values, and only names
of the tables below are looked up.
"""

from __future__ import annotations

import ast
import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

from hexveil import mechanisms
from hexveil.base.errors import InputError
from hexveil.mechanisms.priors import PerUser, UnknownRange
from hexveil.mechanisms.single_cell_plan import Named
from hexveil.simulation.value_distributions import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexveil.mechanisms import Mechanism
    from hexveil.simulation.value_distributions import Values

LONGEST = 200
"""Letters of a mechanism; what is longer is not one."""

MECHANISMS: dict[str, Callable[..., Any]] = {
    name: found
    for name, found in vars(mechanisms).items()
    if name in mechanisms.__all__ and isinstance(found, type) and issubclass(found, Named)
}
"""Every mechanism by its name."""

_DISTRIBUTIONS: dict[str, Callable[..., Any]] = {
    kind.__name__: kind for kind in (*KINDS.values(), PerUser, UnknownRange)
}


def mechanism(text: str) -> Mechanism:
    """Return the mechanism that is written as in a table, like "Levy(gamma=0.2)".

    A name alone has every option at its default.

    Raises
    ------
    InputError
        If there is no such mechanism or option, or an option's value is out of range.

    Examples
    --------
    >>> mechanism("Levy(gamma=0.2)"), mechanism("Baseline")
    (Levy(gamma=0.2), Baseline())
    """
    parsed: Mechanism = _built(_tree(text), text, MECHANISMS)
    return parsed


def values(text: str) -> Values:
    """Return the distribution that is written as kind:number,..., like "normal:20,10".

    Raises
    ------
    InputError
        If there is no such kind, or its numbers are too few, too many or out of range.

    Examples
    --------
    >>> values("normal:20,10")
    Normal(mean=20.0, sd=10.0)
    """
    name, _, arguments = text.partition(":")
    kind = KINDS.get(name.strip().lower())
    if kind is None:
        raise InputError(f"values must be one of {_forms()}, got {text!r}.")
    fields = [field.name for field in dataclasses.fields(kind)]
    try:
        numbers = [float(argument) for argument in arguments.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != len(fields):
        raise InputError(f"values {text!r} must read {_form(name.strip().lower(), fields)}.")
    distribution: Values = kind(*numbers)
    return distribution


def _forms() -> str:
    return ", ".join(
        _form(name, [field.name for field in dataclasses.fields(kind)])
        for name, kind in KINDS.items()
    )


def _form(name: str, fields: list[str]) -> str:
    return f"{name}:{','.join(fields).upper()}"


def _tree(text: str) -> ast.expr:
    """Return what was written as a tree, nothing of which is run."""
    try:
        if len(text) > LONGEST:
            raise ValueError
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, SyntaxWarning, ValueError, RecursionError, MemoryError):
        raise InputError(_unreadable(text)) from None


def _built(tree: ast.expr, text: str, constructors: dict[str, Callable[..., Any]]) -> Any:  # noqa: ANN401
    """Return what a name, or a name with arguments, of a table stands for."""
    call = tree if isinstance(tree, ast.Call) else ast.Call(tree, [], [])
    if not isinstance(call.func, ast.Name) or None in (word.arg for word in call.keywords):
        raise InputError(_unreadable(text))
    kind = constructors.get(call.func.id)
    if kind is None:
        raise InputError(f"there is no {call.func.id!r}; known are {', '.join(constructors)}.")
    positional = [_literal(argument, text) for argument in call.args]
    keywords = {str(word.arg): _literal(word.value, text) for word in call.keywords}
    try:
        return kind(*positional, **keywords)
    except InputError:
        raise
    except (TypeError, ValueError, AttributeError, ArithmeticError):
        raise InputError(
            f"{text!r} has an option that {call.func.id} does not take; see "
            "docs/reference/python.md."
        ) from None


def _literal(tree: ast.expr, text: str) -> object:
    """Return a number, word or None, or a distribution; numbers keep the text they had."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, (int, float, str, type(None))):
        return tree.value
    if (
        isinstance(tree, ast.UnaryOp)
        and isinstance(tree.op, ast.USub)
        and isinstance(tree.operand, ast.Constant)
        and isinstance(tree.operand.value, (int, float))
    ):
        return -tree.operand.value
    if isinstance(tree, ast.Call):
        return _built(tree, text, _DISTRIBUTIONS)
    raise InputError(_unreadable(text))


def _unreadable(text: str) -> str:
    return (
        f"a mechanism reads like Levy(gamma=0.2), got {text[:LONGEST]!r}; options are plain "
        "numbers or words in quotes."
    )
