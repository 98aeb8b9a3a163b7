"""A look at columns, without a value."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hexveil import InputError
from hexveil.records.sources.schema_preview import inspect_schema


def test_a_look_has_names_and_declared_types(tmp_path):
    """Parquet has its types, CSV is text, and nested fields are inside theirs."""
    table = pa.table({"bus": ["a"], "at": [{"speed": 1.5}], "place": [[1.0, 2.0]]})
    pq.write_table(table, tmp_path / "one.parquet")
    seen = inspect_schema(str(tmp_path / "one.parquet"))
    assert not seen.documents
    assert [kind.name for kind in seen.schema.values()] == ["text", "struct", "list"]
    assert seen.schema["at"].fields["speed"].name == "number"
    (tmp_path / "one.csv").write_text("bus;speed\na;1\n")
    schema = inspect_schema(str(tmp_path / "one.csv")).schema
    assert {name: kind.name for name, kind in schema.items()} == {
        "bus": "text", "speed": "text",
    }  # fmt: skip


def test_documents_are_marked(tmp_path):
    """Keys of JSON documents are those of the documents, and are said to be such."""
    (tmp_path / "one.json").write_text(json.dumps([{"bus": "a", "at": {"speed": 1}}]))
    seen = inspect_schema(str(tmp_path / "one.json"))
    assert seen.documents
    assert set(seen.schema["at"].fields) == {"speed"}


@pytest.mark.parametrize("line", ["kr7731,31.5", "kr7731,2024-01-01T10:00:00Z"])
def test_a_first_line_that_is_a_record_is_refused(tmp_path, line):
    """A file without a line of names is refused, and nothing of it is shown."""
    (tmp_path / "one.csv").write_text(f"{line}\n{line}\n")
    with pytest.raises(InputError, match="may be a record") as caught:
        inspect_schema(str(tmp_path / "one.csv"))
    assert "kr7731" not in str(caught.value)


def test_a_source_that_is_none_is_refused(tmp_path):
    """What is not there, or is no kind of file that is read, is refused as `read` does."""
    with pytest.raises(InputError, match="there is no file"):
        inspect_schema(str(tmp_path / "none.csv"))
