"""One private DuckDB connection: its limits, its scratch folder, its translated errors.

DuckDB's own messages may quote rows, so none is ever passed on. The connection is always closed:
an open one with a Python function on it reports leaks at exit.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from typing import Protocol, TypeVar

import duckdb
import pyarrow as pa
from duckdb.func import PythonUDFType

from hexveil.base import hexagons
from hexveil.base import scratch as scratch_folder
from hexveil.base.errors import HexveilError, InputError, StorageError
from hexveil.base.work_share import QUERY, is_work_shown, tell_share
from hexveil.records.read_request import memory_size

T = TypeVar("T")

SORTABLE_PER_BYTE = 0.5 / 8
"""Integers of 8 bytes that may be sorted per byte of the memory limit: half of it."""
ENGINE_RESERVE = 500 * 10**6
"""Bytes that the engine keeps while numbers are sorted beside it, if it had as many."""
RESTING_ENGINE = 128 * 10**6
"""Bytes that the engine keeps while it has nothing to do."""
_BATCH = 1 << 17


class RecordStream(Protocol):
    """A stream of records by Arrow's interface: how much is read, and why it ended early."""

    failure: InputError | None
    share: float

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a new stream."""


class Session(ExitStack[None]):
    """PRIVATE. A connection for one reading, to be used in a `with` statement.

    Parameters
    ----------
    memory : str
        What DuckDB may use; more goes to the scratch folder.
    threads : int, optional
        By default as many as there are processors.
    scratch : str or path, optional
        Where the scratch folder is: see `hexveil.base.scratch`.
    """

    def __init__(
        self, memory: str, threads: int | None = None, scratch: str | os.PathLike[str] | None = None
    ) -> None:
        super().__init__()
        self.memory = memory_size(memory)
        """Bytes that the engine may use."""
        with ExitStack() as opened:
            self.folder = opened.enter_context(scratch_folder.folder(scratch))
            """The scratch folder, which is removed as the session ends."""
            self._connection = _connection(memory, threads, str(self.folder))
            self._tells_share = is_work_shown()
            opened.callback(self._connection.close)
            self._worker = opened.enter_context(ThreadPoolExecutor(1, "hexveil-engine"))
            # Only now is the session responsible: a failure above closes what was opened.
            self.callback(opened.pop_all().close)
        self._functions: set[str] = set()
        self._streams: list[RecordStream] = []
        self.advice = ""
        """What to do, beside raising memory, if the records need more than that."""
        self.sortable = int(self.memory * SORTABLE_PER_BYTE)
        """Integers that may be sorted in memory at once."""

    def __repr__(self) -> str:
        return "Session(private)"

    def register(self, name: str, table: pa.Table | pa.RecordBatchReader) -> None:
        """Give a table in memory a name in queries."""
        self._translate_errors(lambda: self._connection.register(name, table))

    def register_stream(self, name: str, stream: RecordStream) -> None:
        """Give a stream of records a name in queries: each query reads it from its start."""
        self._translate_errors(lambda: self._connection.register(name, stream))
        self._streams.append(stream)

    def forget(self, *names: str) -> None:
        """Remove tables, in memory or of the engine, which frees them."""
        self._translate_errors(lambda: [self._connection.unregister(name) for name in names])
        self.run("; ".join(f"DROP TABLE IF EXISTS {name}" for name in names))

    def hexagon(self, lat: str, lon: str, resolution: int) -> str:
        """Return the expression of the hexagon of a place; both must be null or in range."""
        name = f"hexagon_{resolution}"
        if name not in self._functions:
            self._add(
                name, lambda a, b: hexagons.of_places(a, b, resolution), ["DOUBLE"] * 2, "UBIGINT"
            )
        return f"{name}({lat}, {lon})"

    def add_test(self, name: str, work: Callable[[pa.Array], pa.Array]) -> None:
        """Add a function of texts that is true or false."""
        if name not in self._functions:
            self._add(name, work, ["VARCHAR"], "BOOLEAN")

    def _add(self, name: str, work: Callable[..., pa.Array], given: list[str], made: str) -> None:
        kinds = [getattr(duckdb.sqltypes, kind) for kind in (*given, made)]
        self._connection.create_function(
            name, work, kinds[:-1], kinds[-1], type=PythonUDFType.ARROW
        )
        self._functions.add(name)

    def run(self, query: str) -> None:
        """Run a statement."""
        self._execute(query)

    def arrow(self, query: str) -> pa.Table:
        """Return the rows of a query."""
        return self._translate_errors(lambda: self._connection.sql(query).to_arrow_table())

    def stream(self, query: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query in batches; they need not fit in memory."""
        reader = self._translate_errors(lambda: self._connection.sql(query).to_arrow_reader(_BATCH))
        while (batch := self._translate_errors(lambda: next(reader, None))) is not None:
            yield batch

    @contextmanager
    def sharing(self) -> Iterator[None]:
        """Lower the engine's memory limit by half, for numbers that are sorted beside it."""
        self._limit(max(self.memory / 2, min(self.memory, ENGINE_RESERVE)))
        yield
        # Not after a failure: the engine may be beyond use, and would hide what it was.
        self._limit(self.memory)

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Have the engine's tables written to disk, while other work needs the memory."""
        # What cannot be written stays where it is.
        with suppress(StorageError):
            self._limit(min(self.memory, RESTING_ENGINE))
        yield
        self._limit(self.memory)

    def _limit(self, size: float) -> None:
        self.run(f"SET memory_limit='{int(size)}B'")

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Return the rows of a small query."""
        return self._translate_errors(lambda: self._connection.execute(query).fetchall())

    def numbers(self, query: str) -> list[int]:
        """Return the whole numbers in the only row of a query, if there is one; 0 for a null."""
        return [int(str(number or 0)) for row in self.rows(query) for number in row]

    def types(self, query: str) -> Mapping[str, duckdb.sqltypes.DuckDBPyType]:
        """Return the type of each column of a query, which is not run."""
        description = self._execute(f"SELECT * FROM ({query}) LIMIT 0").description
        return {column[0]: column[1] for column in description}

    def _translate_errors(self, work: Callable[[], T]) -> T:
        """Run work of the engine: failures translated, interruptions immediate.

        Raised outside of the handlers: else the engine's error, which may quote rows, would hang on
        ours as its context, for any program that reports errors to find.
        """
        percent_done = self._percent_done if self._tells_share else None
        try:
            return _interruptibly(work, self._worker, self._connection.interrupt, percent_done)
        except HexveilError as error:
            failure = error
        # Of a stream Arrow passes the engine's failure on as text, which begins with its kind.
        except (duckdb.Error, OSError, NotImplementedError, pa.ArrowException) as error:
            failure = _translate(error, self.advice)
        # What a stream says of its files is known here alone: the engine has it as text.
        raise next((stream.failure for stream in self._streams if stream.failure), failure)

    def _percent_done(self) -> float:
        """Return how much of a query is done; below 0 where nobody knows."""
        # Of a stream the engine does not know how long it is.
        read = (100.0 * stream.share for stream in self._streams[-1:])
        return max(self._connection.query_progress(), *read, -1.0)

    def _execute(self, query: str) -> duckdb.DuckDBPyConnection:
        return self._translate_errors(lambda: self._connection.execute(query))


def _connection(memory: str, threads: int | None, folder: str) -> duckdb.DuckDBPyConnection:
    """Return a new connection that spills to a folder."""
    connection = duckdb.connect(
        config={
            "memory_limit": memory,
            "temp_directory": folder,
            **({} if threads is None else {"threads": threads}),
            # Order is never relied on; kept, it would hold back whole row groups in memory.
            "preserve_insertion_order": False,
            # A query must never fetch code from the network, nor load what is not checked.
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "enable_external_file_cache": False,
        }
    )
    # Else times without an offset would be read by the machine's own time zone.
    connection.execute("SET TimeZone='UTC'")
    if is_work_shown():  # on a terminal: the engine counts for our line, and prints none of its own
        connection.execute("SET enable_progress_bar_print=false")
        connection.execute("SET enable_progress_bar=true")
    # In a notebook without ipywidgets it is off, and turning it off is refused.
    elif connection.sql("SELECT current_setting('enable_progress_bar')").fetchall()[0][0]:
        connection.execute("SET enable_progress_bar=false")
    return connection


def _translate(error: Exception, advice: str) -> HexveilError:
    """Return our error for a failure of DuckDB; its own text may quote rows."""
    text = str(error)

    def is_one(*kinds: type[duckdb.Error]) -> bool:
        return isinstance(error, kinds) or text.startswith(tuple(_FAILURES[kind] for kind in kinds))

    if is_one(duckdb.OutOfMemoryException):
        return StorageError(
            "reading the records needs more memory or disk than it may use; raise memory, or "
            f"free space for temporary files{advice}."
        )
    if is_one(duckdb.IOException) and "No space left" in text:
        return StorageError("the disk for temporary files is full; free space and try again.")
    # An error without a kind of its own comes from a file's innards, as "out of buffer" does.
    if type(error) is duckdb.Error or is_one(
        duckdb.IOException, duckdb.InvalidInputException, duckdb.ConversionException
    ):
        return InputError(
            "source: a file could not be read to its end; it may be truncated, malformed or not "
            "what its name says."
        )
    if "not marked as fallible" in text:
        # So DuckDB says that a function met what it cannot take; it calls it its own failure.
        return InputError(
            "source: the engine cannot read one of the records: its JSON is nested too deep, or a "
            "time lies too far from today; mend or leave out such records."
        )
    return HexveilError(
        f"the engine failed while reading the records ({type(error).__name__}); its message is "
        "not shown because it may quote them."
    )


_FAILURES: dict[type[duckdb.Error], str] = {
    duckdb.IOException: "IO Error",
    duckdb.InvalidInputException: "Invalid Input",
    duckdb.ConversionException: "Conversion",
    duckdb.OutOfMemoryException: "Out of Memory",
}
"""How the text of a failure begins."""
_SHOWN_AGAIN = 0.5
"""Seconds between two looks at the share of a query."""
_AGAIN = 0.05
"""Seconds between two calls to end the work: one that comes before a query begins is lost."""


def _interruptibly(
    work: Callable[[], T],
    worker: ThreadPoolExecutor,
    interrupt: Callable[[], object],
    percent_done: Callable[[], float] | None,
) -> T:
    """Run work of the engine and return its result; tell its share.

    Python takes signals in its main thread, between steps of its own, and a query can be one step
    of minutes. So the engine works in another thread while the main thread waits for it.

    `percent_done` is below 0 where the engine does not know it. If the run is interrupted,
    `interrupt` is called until the work ends; then KeyboardInterrupt is raised. Only the main
    thread is ever interrupted; from another thread the work just runs.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    working = worker.submit(work)
    try:
        # Waiting for a future is interruptible, unlike a call into the engine.
        while percent_done is not None and not wait([working], timeout=_SHOWN_AGAIN).done:
            tell_share(QUERY, max(percent_done(), 0.0) / 100.0)
        return working.result()
    except KeyboardInterrupt:
        while not wait([working], timeout=_AGAIN).done:
            interrupt()
        raise
