"""From the arguments of `read`, each stated once, to checked requests: no file is opened."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal, TypedDict, get_args

from hexveil.base.errors import InputError
from hexveil.base.items import items_of
from hexveil.base.rational import Number
from hexveil.base.scratch import place
from hexveil.model.cells import Cells, Labels
from hexveil.model.public_metadata import Unit, ValueLattice
from hexveil.model.statistic_terms import Term, distribution_terms
from hexveil.records.read_request import ReadRequest, RecordColumns, Repeats, Rules
from hexveil.records.select import Select
from hexveil.records.sources.record_format import RecordFormat
from hexveil.records.sources.versions import Version
from hexveil.records.unambiguous_names import quoted

Protect = Literal["values", "presence"]
"""Privacy models."""


class ReadOptions(TypedDict, total=False):
    """Arguments of `hexveil.records.read` that may be left out, for type checkers."""

    lat: str | None
    lon: str | None
    location: str | None
    time: str | Sequence[str] | None
    privacy_unit: Unit
    quantum: Number | Mapping[str, Number]
    select: Select
    repeats: Repeats
    value_unit: str | Mapping[str, str] | None
    max_bad_rows: float
    max_repeats: float
    accept_single_records: bool
    memory: str
    engine: object
    version: Version | None
    timezone: str | None
    cache: str | os.PathLike[str] | None
    scratch: str | os.PathLike[str] | None
    format: RecordFormat
    statistics: Sequence[str] | str
    id_space: str | None


def check_protect(protect: str, cells: Cells | Labels) -> bool:
    """Return whether presence is private; refuse unknown words, and areas where it is not.

    Raises
    ------
    InputError
        If the word is unknown, or cells declare an area or values without private presence.
    """
    if protect not in get_args(Protect):
        raise InputError(f'protect must be "values" or "presence", got {protect!r}.')
    if protect == "presence":
        return True
    is_declared = (isinstance(cells, Cells) and cells.area is not None) or (
        isinstance(cells, Labels) and cells.values is not None
    )
    if is_declared:
        raise InputError(
            'area and values declare the cells of private presence: use them with protect = "'
            'presence" (in [privacy], or --protect), or select records by box.'
        )
    return False


def terms_of(statistics: Sequence[str] | str, *, is_private: bool) -> tuple[Term, ...]:
    """Return the statistics for which records are counted by bin.

    Raises
    ------
    InputError
        If a statistic is none, or none of private presence.
    """
    names = items_of(statistics)
    if not is_private:
        return distribution_terms(statistics)
    if unknown := {"variance", "sd"} & set(names):
        raise InputError(
            "statistics: under private presence a release has averages, quantiles, shares, "
            f"histograms or numbers of units, not {min(unknown)!r}."
        )
    # Numbers of units need no values.
    return distribution_terms([name for name in names if name != "users"])


def requests_of(**arguments: Any) -> tuple[ReadRequest, ...]:  # noqa: ANN401  see `read`
    """Return the checked request of each value column, in the order in which they are named.

    Parameters
    ----------
    arguments : keyword arguments
        As for `hexveil.records.read`; what is left out has its default.

    Raises
    ------
    InputError
        If an argument cannot be used.
    """
    is_private = check_protect(arguments.get("protect", "values"), arguments["cells"])
    arguments["terms"] = terms_of(arguments.pop("statistics", ()), is_private=is_private)
    version, scratch = arguments.get("version"), arguments.get("scratch")
    # Quoted, so that no version can be spelled like the placeholder of a missing one.
    by_file = isinstance(version, Mapping)
    arguments["version"] = None if by_file or not version else quoted(str(version))
    # Resolved now: the working folder may be another one when a capacity table counts again.
    arguments["scratch"] = None if scratch is None else str(place(scratch))
    arguments.pop("cache", None)
    stated = {"quantum": "0.001", "value_unit": None}
    stated |= {n: arguments[n] for n in ("bounds", "quantum", "value_unit") if n in arguments}
    return tuple(_request(arguments | column) for column in _by_column(arguments["value"], stated))


def _request(arguments: dict[str, Any]) -> ReadRequest:
    """Return the request of one value column."""
    columns = RecordColumns(**_fields_of(RecordColumns, arguments))
    scale = ValueLattice.of(arguments["bounds"], arguments["quantum"])
    rules = Rules(**_fields_of(Rules, arguments | {"scale": scale}))
    arguments |= {"columns": columns, "rules": rules, "value_unit": arguments["value_unit"] or ""}
    return ReadRequest(**_fields_of(ReadRequest, arguments))


def _fields_of(kind: type, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that are fields of a class."""
    names = (field.name for field in fields(kind))
    return {name: arguments[name] for name in names if name in arguments}


def _by_column(value: object, stated: Mapping[str, object]) -> Iterator[dict[str, Any]]:
    """Yield the facts of each value column: one for all columns, or one for each.

    Raises
    ------
    InputError
        If a column is named twice, or missing in a mapping.
    """
    # Whatever they are, `RecordColumns` judges them.
    names = items_of(value) or [value]
    if len(set(map(str, names))) < len(names):
        raise InputError(f"value names a column twice; name each once, got {names!r}.")
    for field, declared in stated.items():
        if not isinstance(declared, Mapping):
            continue
        missing = [name for name in names if name not in declared]
        # Columns that are not read now may be named: one run file serves all, also one by one.
        unread = [name for name in declared if name not in names]
        if missing and (field != "value_unit" or unread):
            beside = f" (it names {', '.join(map(repr, unread))})" if unread else ""
            raise InputError(
                f"{field} leaves out the value column {missing[0]!r}{beside}; state it too."
            )
    for name in names:
        own_facts = {key: v.get(name) if isinstance(v, Mapping) else v for key, v in stated.items()}
        yield {"value": name, **own_facts}
