"""Statements of a request that hold for all value columns, or for each its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.base.rational import to_positive_fraction
from hexveil.planning.request import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TARGET_NAMES = (*STATISTICS, "sum")
"""What targets of one column are for, if they are stated by name."""


def targets_by_column(stated: object, columns: Sequence[str]) -> dict[str, object]:
    """Return the target errors of each value column, as `hexveil.plan` takes them of one.

    Parameters
    ----------
    stated : number, text, sequence or mapping
        For all columns, perhaps by statistic, or a mapping with those of each column.
    columns : sequence of str

    Raises
    ------
    InputError
        If a mapping names what is no value column, or leaves one out.

    Examples
    --------
    >>> targets_by_column({"pm25": 2, "no2": "5%"}, ["pm25", "no2"])
    {'pm25': 2, 'no2': '5%'}
    >>> targets_by_column({"mean": 2, "variance": "5%"}, ["pm25"])
    {'pm25': {'mean': 2, 'variance': '5%'}}
    """
    if not isinstance(stated, Mapping) or not _is_by_column(stated, columns):
        return dict.fromkeys(columns, stated)
    _refuse_others("target_error", stated, columns)
    for column in columns:
        if column not in stated:
            raise InputError(
                f"target_error leaves out the value column {column!r}; name each of "
                f"{', '.join(columns)}."
            )
    return {column: stated[column] for column in columns}


def baseline_errors(stated: object, columns: Sequence[str]) -> dict[str, Any]:
    """Return the baseline error of each value column; None for the default.

    Raises
    ------
    InputError
        If a mapping names what is no value column, or a number is not above 0.
    """
    if not isinstance(stated, Mapping):
        return dict.fromkeys(columns, stated)
    _refuse_others("baseline_error", stated, columns)
    for column, error in stated.items():
        to_positive_fraction(error, f"baseline_error of {column}")
    return {column: stated.get(column) for column in columns}


def own_target(stated: object, column: str, cells: Callable[[], Sequence[str]]) -> object:
    """Return the target errors of the one value column of a reading.

    Parameters
    ----------
    stated : object
        Perhaps a mapping by value column: others in it are not read, so that one run file serves
        for all columns and for each alone.
    column : str
    cells : callable
        Returns the names of the cells: a mapping that names all of them is by cell.

    Examples
    --------
    >>> own_target({"pm25": 2, "no2": 5}, "pm25", tuple), own_target(3, "pm25", tuple)
    (2, 3)
    """
    if not isinstance(stated, Mapping) or column not in stated or not _is_by_column(stated, ()):
        return stated
    names = cells()
    return stated if column in names and set(names) <= set(stated) else stated[column]


def own_baseline_error(stated: Any, column: str) -> Any:  # noqa: ANN401  a number of any kind
    """Return the baseline error of the one value column of a reading; others are not read.

    Raises
    ------
    InputError
        If a mapping leaves the column out.
    """
    if not isinstance(stated, Mapping):
        return stated
    if column not in stated:
        raise InputError(f"baseline_error leaves out the value column {column!r}; name it.")
    return stated[column]


def weights_beside_targets() -> InputError:
    """Return the error for weights of value columns where their targets decide."""
    return InputError(
        "weights divide epsilon among value columns, and target_error takes the place of epsilon: "
        "each column costs what its own targets need; leave weights out."
    )


def _is_by_column(stated: Mapping[Any, object], columns: Sequence[str]) -> bool:
    """Return whether a mapping is by value column and not by statistic."""
    # A column may have the name of a statistic: then it is the column that is meant.
    return not set(stated) <= {*TARGET_NAMES} or not set(stated).isdisjoint(columns)


def _refuse_others(name: str, stated: Mapping[Any, object], columns: Sequence[str]) -> None:
    """Refuse names that are no value column."""
    for column in stated:
        if column not in columns:
            raise InputError(
                f"{name} has {column!r}, which is no value column; name each of "
                f"{', '.join(columns)}."
            )
