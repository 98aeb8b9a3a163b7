"""The engine's connection: its errors in our words, nothing left behind."""

import re

import duckdb
import pytest

from hexveil import HexveilError, InputError, StorageError
from hexveil.records.duckdb import session as session_module
from hexveil.records.duckdb.session import Session, _translate
from hexveil.records.read_request import check_arguments

SENTINEL = "bus-9182736455"


@pytest.mark.parametrize(
    ("error", "kind", "sentence"),
    [
        (duckdb.OutOfMemoryException, StorageError, "more memory or disk"),
        (duckdb.InvalidInputException, InputError, "could not be read to its end"),
        (duckdb.ConversionException, InputError, "could not be read to its end"),
        (duckdb.BinderException, HexveilError, "BinderException"),
    ],
)
def test_no_error_passes_on_what_the_engine_said(error, kind, sentence):
    """Whatever the engine reports, the words are ours."""
    ours = _translate(error(f"Could not convert '{SENTINEL}'"), "")
    assert type(ours) is kind
    assert re.search(sentence, str(ours))
    assert SENTINEL not in str(ours)


def test_a_full_disk_is_a_failure_of_storage():
    """It may work later, so it is not bad input."""
    assert type(_translate(duckdb.IOException("No space left on device"), "")) is StorageError


def test_a_failing_query_hides_its_cause():
    """The engine's exception is not chained, since a traceback would print it."""
    with Session("100MB") as session, pytest.raises(HexveilError) as caught:
        session.run(f"SELECT CAST('{SENTINEL}' AS INTEGER)")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert SENTINEL not in str(caught.value)


@pytest.mark.parametrize("memory", ["100MB", "1GB", "1.5 GiB", "2gb"])
def test_sizes_of_memory_are_accepted(memory):
    """Sizes with their unit are handed on as written."""
    check_arguments({"memory": memory})
    with Session(memory):
        pass


@pytest.mark.parametrize("memory", ["", "1", "GB", "-1GB", "1MB", 5, None])
def test_what_is_no_size_of_memory_is_refused(memory):
    """A number without a unit, too little, and other things are named."""
    with pytest.raises(InputError, match="memory must be a size"):
        check_arguments({"memory": memory})


def test_tables_are_on_disk_while_the_engine_rests(tmp_path):
    """A table larger than what a resting engine keeps is written out, and is whole afterwards."""
    bytes_in_memory = "SELECT sum(memory_usage_bytes) FROM duckdb_memory()"
    with Session("500MB", scratch=tmp_path / "scratch") as session:
        session.run("CREATE TEMP TABLE kept AS SELECT hash(range) AS number FROM range(3000000)")
        whole = session.rows("SELECT count(*), sum(number) FROM kept")
        memory = session.rows("SELECT current_setting('memory_limit')")[0][0]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(session_module, "RESTING_ENGINE", 10**7)
            with session.resting():
                assert session.rows(bytes_in_memory)[0][0] <= 10**7
        assert session.rows("SELECT count(*), sum(number) FROM kept") == whole
        assert session.rows("SELECT current_setting('memory_limit')")[0][0] == memory
