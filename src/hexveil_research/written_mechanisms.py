"""Mechanisms and distributions of values, read as a person writes them on a command line.

Nothing that is written is evaluated.
"""

import dataclasses
from typing import Any

from hexveil.base.errors import InputError
from hexveil.evaluation import Heterogeneous, Normal, Uniform
from hexveil.mechanisms import PRIORS, CellMechanism, parse
from hexveil.mechanisms.priors import ValueDistribution

KINDS: dict[str, type[Normal | Uniform | Heterogeneous]] = {
    "normal": Normal,
    "uniform": Uniform,
    "heterogeneous": Heterogeneous,
}
"""Every distribution by its short name."""
FORMS = ", ".join(
    f"{name}:{','.join(field.name.upper() for field in dataclasses.fields(kind))}"
    for name, kind in KINDS.items()
)
_DISTRIBUTIONS: dict[str, type[Any]] = PRIORS | {kind.__name__: kind for kind in KINDS.values()}


def mechanism(text: str) -> CellMechanism:
    """Parse a mechanism as `hexveil.mechanisms` does; options may also be distributions of a study.

    Examples
    --------
    >>> mechanism("Levy(gamma=0.2)")
    Levy(gamma=0.2)
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
    try:
        return KINDS[name.strip().lower()](*map(float, arguments.split(",")))
    except InputError:
        raise
    except (KeyError, TypeError, ValueError):
        raise InputError(f"values must be one of {FORMS}, got {text!r}.") from None
