"""Names in the target errors and baseline errors of a run: statistics and value columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

GOALS = ("mean", "variance", "sum")
"""What a target can be for; a deviation is reached through its variance."""

Goals = dict[str, str | dict[str, str]]


def named_goals(goals: Goals, columns: Sequence[str]) -> Goals:
    """Return targets by statistic, or by value column; a column may have one for each statistic.

    Parameters
    ----------
    goals : dict
        As the run states them; options have "pm25.mean" for the mean of pm25.
    columns : sequence of str
        Value columns of the run.

    Raises
    ------
    ValueError
        With the reason, if a name is of neither, or if a column has no target.

    Examples
    --------
    >>> named_goals({"pm25.mean": "2", "pm25.variance": "5%", "no2": "4"}, ["pm25", "no2"])
    {'pm25': {'mean': '2', 'variance': '5%'}, 'no2': '4'}
    """
    named: Goals = {}
    for name, goal in goals.items():
        column, _, statistic = name.rpartition(".")
        is_part = name not in columns and column in columns and statistic in (*GOALS, "sd")
        if not is_part:
            _put(named, name, goal)
            continue
        part = named.setdefault(column, {})
        if isinstance(part, dict) and isinstance(goal, str):
            _put(part, statistic, goal)
        else:
            raise _repeated(column)
    if set(named) <= {*GOALS} and set(named).isdisjoint(columns):
        return named
    _check(named, columns)
    return named


def check_baseline_names(errors: object, columns: Sequence[str]) -> None:
    """Refuse baseline errors of other names than those of the value columns.

    Raises
    ------
    ValueError
        With the reason.
    """
    # Of one column alone the others of a run file for all of them are not read.
    for name in errors if isinstance(errors, dict) and len(columns) > 1 else ():
        if name not in columns:
            raise ValueError(f"must be for {', '.join(columns)}, got {name!r}")


def _put(goals: dict[str, Any], name: str, goal: object) -> None:
    if name in goals:
        raise _repeated(name)
    goals[name] = goal


def _repeated(name: str) -> ValueError:
    return ValueError(f"has two targets for {name}; use one")


def _check(named: Goals, columns: Sequence[str]) -> None:
    """Refuse names that are of no value column and no statistic, and columns without a target."""
    # Of one column alone the others of a run file for all of them are not read.
    is_alone = len(columns) == 1 and columns[0] in named
    for name, goal in named.items():
        if not (name in columns or is_alone):
            raise ValueError(f"must be for {_known(columns)}, got {name!r}{_through(name)}")
        for statistic in goal if isinstance(goal, dict) else ():
            if statistic not in GOALS:
                raise ValueError(
                    f"must be for {', '.join(GOALS)} in {name}, got {statistic!r}"
                    f"{_through(statistic)}"
                )
    for column in columns:
        if column not in named:
            raise ValueError(f"leaves out the value column {column!r}; give it a target, too")


def _known(columns: Sequence[str]) -> str:
    """Return the names that a target may have, in words."""
    several = f", or each of {', '.join(columns)}" if len(columns) > 1 else ""
    return f"{', '.join(GOALS)}{several}"


def _through(name: str) -> str:
    return "; set a target for the variance instead" if name == "sd" else ""
