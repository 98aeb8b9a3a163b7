"""Names of a statistic: as it was asked for, and as the prefix of its columns."""

from __future__ import annotations

from hexveil.base.errors import InputError
from hexveil.model.statistic_terms import Histogram, column_names, term_of


def column_of(statistic: str) -> str:
    """Return the prefix of a statistic's columns, by its text or by that prefix.

    Raises
    ------
    InputError
        If it is a whole histogram.

    Examples
    --------
    >>> column_of("share<10"), column_of("p85"), column_of("mean"), column_of("histogram_07")
    ('share_below_10', 'p85', 'mean', 'histogram_07')
    """
    term = term_of(statistic)
    if not isinstance(term, Histogram):
        return statistic if term is None else column_names(term)[0]
    if statistic == term.text:
        first, *_, last = column_names(term)
        raise InputError(f"a histogram has many numbers; name one bin, {first} to {last}.")
    return statistic
