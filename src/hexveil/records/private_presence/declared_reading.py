"""Declarations of a reading with private presence, checked before a file is opened.

Under `protect="presence"` no refusal may depend on a record. Shares of unusable rows, records per
user and users per cell limit nothing; numbers that could overflow are limited by the bounds, before
a file is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.model.declared_grid import DeclaredFacts, DeclaredGrid
from hexveil.records.read_request import SUMS_USER, ReadRequest, Rules
from hexveil.records.select import Select
from hexveil.records.sources.source_files import Files

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
    if request.format.quoted_newlines:
        raise InputError(
            'quoted_newlines is not for protect = "presence": an unbalanced quote in the record of '
            "one unit could take records of others along; remove quoted_newlines (from [format])."
        )
    facts = facts_of(request.rules, request.columns.value, request.value_unit, _identity(request))
    return replace(facts, id_space=request.id_space)


def facts_of(
    rules: Rules, value: str, value_unit: str, identity: Mapping[str, str]
) -> DeclaredFacts:
    """Return declared facts from rules that were checked, whatever is read by them."""
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
    grid = DeclaredGrid.of(rules.cells, rules.select.dates, rules.select.hours)
    return DeclaredFacts(
        grid=grid,
        lattice=rules.scale,
        privacy_unit=rules.privacy_unit,
        value=value,
        value_unit=value_unit,
        days=rules.select.days,
        identity=identity,
        bins=rules.bins,
        id_space=rules.id_space or SUMS_USER,
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
    for name, is_given in (
        ("max_bad_rows", rules.max_bad_rows != Rules.max_bad_rows),
        ("max_repeats", rules.max_repeats != Rules.max_repeats),
        ("accept_single_records", rules.accept_single_records),
    ):
        if is_given:
            raise InputError(
                f'{name} has no meaning with protect "presence", which refuses no records: whether '
                "it did would tell who is in them; leave it out."
            )


def refuse_versions_by_file(version: object) -> None:
    """Refuse versions by file: which files count would follow from their records.

    Raises
    ------
    InputError
        If the version is a mapping.
    """
    if isinstance(version, Mapping):
        raise InputError(
            'version must be one text for all files with protect "presence": which of several '
            "versions a release is made of would follow from the records."
        )


def refuse_documents(source: object) -> None:
    """Refuse files with columns that depend on their records."""
    if isinstance(source, Files) and source.kind not in FIXED_COLUMNS:
        raise InputError(
            'protect "presence" reads Parquet, CSV and tables, whose columns do not depend on the '
            "records; convert the documents before."
        )


def _identity(request: ReadRequest) -> dict[str, str]:
    """Return the declared reading as text; no count, and nothing found in the records."""
    select = request.rules.select
    return request.identity("") | {
        "select": "; ".join(
            (
                f"hours {'all' if select.hours is None else ','.join(map(str, select.hours))}",
                f"dates {'all' if select.dates is None else ' to '.join(select.dates)}",
                f"box {'none' if select.box is None else ','.join(map(repr, select.box))}",
            )
        )
    }
