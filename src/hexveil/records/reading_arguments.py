"""From the arguments of `read`, each stated once, to checked requests and declared facts.

No file is opened. Under `protect="presence"` no refusal may depend on a record: shares of unusable
rows, records per user and users per cell limit nothing, and the bounds limit numbers that could
overflow.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text, items_of
from hexveil.base.scratch import place
from hexveil.model.cells import Cells, Labels
from hexveil.model.declared_grid import DeclaredFacts, DeclaredGrid
from hexveil.model.public_metadata import ValueLattice
from hexveil.model.statistic_terms import Term, distribution_terms
from hexveil.records.read_request import ReadRequest, RecordColumns, Rules, check_arguments
from hexveil.records.select import Select
from hexveil.records.sources.record_format import quoted
from hexveil.records.sources.source_files import Files


def refuse_declared(cells: Cells | Labels) -> None:
    """Raise InputError if cells declare an area or values, without private presence."""
    if getattr(cells, "area", None) is not None or getattr(cells, "values", None) is not None:
        raise InputError(
            'area and values declare the cells of private presence: use them with protect = "'
            'presence" (in [privacy], or --protect), or select records by box.'
        )


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
    check_arguments({name: given for name, given in arguments.items() if name != "value"})
    is_private = arguments.get("protect") == "presence"
    if not is_private:
        refuse_declared(arguments["cells"])
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


def readings_of(**arguments: Any) -> list[tuple[ReadRequest, DeclaredFacts | None]]:  # noqa: ANN401
    """Return the request of each value column, with its declared facts if presence is private.

    Raises
    ------
    InputError
        If an argument cannot be used.
    """
    requests = requests_of(**arguments)
    if arguments["protect"] == "values":
        return [(request, None) for request in requests]
    if isinstance(arguments["version"], Mapping):
        raise InputError(
            'version must be one text for all files with protect "presence": which of several '
            "versions a release is made of would follow from the records."
        )
    return [(request, declare_facts(request)) for request in requests]


def _request(arguments: dict[str, Any]) -> ReadRequest:
    """Return the request of one value column."""
    check_arguments({"value": arguments["value"]})
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
    # Whatever they are, `check_arguments` judges them.
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


FIXED_COLUMNS = ("parquet", "csv")
"""Kinds of files whose columns are known whatever records they hold."""
MAX_SPAN_QUANTA = 2**24
"""Widest bounds in quanta: sums of 2^38 records fit 64 bits, so that none can overflow."""


def declare_facts(request: ReadRequest) -> DeclaredFacts:
    """Return the declared facts of a reading; nothing is read.

    Raises
    ------
    InputError
        If the request lacks a declaration, or has a choice of cells by their records.
    """
    rules = request.rules
    _refuse_choices_by_records(rules.select)
    _refuse_limits(rules)
    if rules.scale.span_quanta > MAX_SPAN_QUANTA:
        raise InputError(
            f"quantum {decimal_text(rules.scale.quantum)} is too fine for these bounds under "
            f"private presence: at most {MAX_SPAN_QUANTA:,} steps lie between them; use a coarser "
            "quantum."
        )
    if rules.privacy_unit != "user" and rules.select.dates is None:
        raise InputError(
            f"dates (in [select], or --set select.dates) are needed with the privacy unit "
            f"{rules.privacy_unit!r} under private presence: the ledger books each declared day."
        )
    selection = rules.select.describe().partition("; min_users")[0]
    return DeclaredFacts(
        grid=DeclaredGrid.of(rules.cells, rules.select.dates, rules.select.hours),
        lattice=rules.scale,
        privacy_unit=rules.privacy_unit,
        value=request.columns.value,
        value_unit=request.value_unit,
        days=rules.select.days,
        # No count, and nothing found in the records.
        identity=request.identity("") | {"select": selection},
        bins=rules.bins,
        id_space=request.id_space,
    )


def _refuse_choices_by_records(select: Select) -> None:
    """Refuse a choice of cells by their users or records, which are private."""
    # 10 is the default of the other model, which nobody wrote here.
    if select.top is not None or select.min_users not in (1, Select.min_users):
        raise InputError(
            'min_users and top choose cells by their records, which are private with protect "'
            'presence"; leave them out: cells with too little weight are closed by noisy numbers.'
        )


def _refuse_limits(rules: Rules) -> None:
    """Refuse limits that no reading with private presence has."""
    for name in ("max_bad_rows", "max_repeats", "accept_single_records"):
        if getattr(rules, name) != getattr(Rules, name):
            raise InputError(
                f'{name} has no meaning with protect "presence", which refuses no records: whether '
                "it did would tell who is in them; leave it out."
            )


def refuse_documents(source: object) -> None:
    """Refuse files with columns that depend on their records."""
    if isinstance(source, Files) and source.kind not in FIXED_COLUMNS:
        raise InputError(
            'protect "presence" reads records from Parquet, CSV and tables, whose columns do not '
            "depend on their rows; convert the documents before."
        )
