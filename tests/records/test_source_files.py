"""Sources in memory: columns of mixed types, and of types that engines do not know, become text."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from hexveil.records.sources.source_files import resolve_source, spell


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (7.0, "7"),
        (-0.0, "0"),
        (7.5, "7.5"),
        (2.0**53, "9007199254740992.0"),
        (float("inf"), "inf"),
        (np.float32(7), "7"),
        (np.int8(7), "7"),
        (Decimal("7.00"), "7"),
        (Decimal("-0.00"), "0"),
        (Decimal("-0.50"), "-0.5"),
        (Decimal("7E+2"), "700"),
        (Decimal("NaN"), "NaN"),
        (True, "true"),
        (np.False_, "false"),
        ("7.0", "7.0"),
    ],
)
def test_a_number_among_other_types_has_one_text(value, text):
    """As an id it is the unit that a column of numbers gives; text is left as it is."""
    assert spell(value) == text


def test_long_decimals_are_text_without_zeros_at_their_end():
    """Their text is that of the number, in every part of a table, and what is missing stays so."""
    numbers = [Decimal("7.000"), None, Decimal("0.000"), Decimal("1.250")]
    long = pa.chunked_array([numbers[:2], numbers[2:]], pa.decimal256(50, 3))
    found = resolve_source(pa.table({"bus": long})).data
    assert found["bus"].to_pylist() == ["7", None, "0", "1.25"]
    assert resolve_source(pa.table({"bus": long.slice(0, 0)})).data["bus"].type == pa.string()
