"""Mechanisms and values as a person writes them on a command line; nothing is evaluated."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.mechanisms.registry import PRIORS, parse
from hexveil.simulation.value_distributions import KINDS

if TYPE_CHECKING:
    from hexveil.mechanisms import CellMechanism
    from hexveil.simulation.value_distributions import ValueDistribution

_DISTRIBUTIONS: dict[str, type[Any]] = PRIORS | {kind.__name__: kind for kind in KINDS.values()}


def mechanism(text: str) -> CellMechanism:
    """Return the mechanism that is written as in a table, like "Levy(gamma=0.2)".

    A name alone has every option at its default; an option may be a distribution of a study.

    Raises
    ------
    InputError
        If there is no such mechanism or option, or an option's value is out of range.

    Examples
    --------
    >>> mechanism("Levy(gamma=0.2)"), mechanism("Baseline")
    (Levy(gamma=0.2), Baseline())
    """
    return parse(text, _DISTRIBUTIONS)


def values(text: str) -> ValueDistribution:
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
        numbers = [float(number) for number in arguments.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != len(fields):
        raise InputError(
            f"values {text!r} must have the form {_form(name.strip().lower(), fields)}."
        )
    distribution: ValueDistribution = kind(*numbers)
    return distribution


def _forms() -> str:
    return ", ".join(
        _form(name, [field.name for field in dataclasses.fields(kind)])
        for name, kind in KINDS.items()
    )


def _form(name: str, fields: list[str]) -> str:
    return f"{name}:{','.join(fields).upper()}"
