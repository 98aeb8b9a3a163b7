"""Where configured columns are found: exact names first, then paths, then JSON."""

import pytest

from hexveil import ColumnError
from hexveil.records.sources.columns import ColumnRef, ColumnType, resolve

NUMBER, TEXT, JSON = ColumnType("number"), ColumnType("text"), ColumnType("json")
POINT = ColumnType("struct", {"coordinates": ColumnType("list", element=NUMBER)})


def test_an_exact_name_comes_before_a_path():
    """A column whose name holds dots wins over the nested field of the same spelling."""
    schema = {"a.b": TEXT, "a": ColumnType("struct", {"b": NUMBER})}
    assert resolve("value", "a.b", schema) == ColumnRef("a.b", (), TEXT)
    del schema["a.b"]
    assert resolve("value", "a.b", schema) == ColumnRef("a", ("b",), NUMBER, 1)


def test_keys_of_documents_may_hold_dots_inside():
    """Where the keys are known the longest that fits is taken, and a wrong one is refused."""
    schema = {"a": ColumnType("json", {"b.c": JSON, "b": ColumnType("json", {"d": JSON})})}
    assert resolve("value", "a.b.c", schema).path == ("b.c",)
    assert resolve("value", "a.b.d", schema).path == ("b", "d")
    with pytest.raises(ColumnError) as caught:
        resolve("value", "a.b.x", schema)
    assert "a.b.d" in caught.value.available
