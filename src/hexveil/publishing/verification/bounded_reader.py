"""A process that reads a Parquet file in so much memory: run as a script, the file as its input.

Its arguments are the folder of pyarrow, the bytes of memory that it may take, the file's rows, and
the bytes that its texts take together at most. It prints a word of `ANSWERS`, or nothing where the
file cannot be read.
"""

import os
import sys

ANSWERS = {
    "ok": "",
    "rows": "has not as many rows as manifest.json has cells, {rows:,}",
    "memory": "unpacks to more than its rows take, and is not read",
    "texts": "has longer texts than cells.csv, and is not read",
}


def main() -> None:
    """Print the answer."""
    sys.path.append(sys.argv[1])
    # Not needed here, and half of the time that loading takes.
    sys.modules["numpy"] = None  # type: ignore[assignment]
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    try:
        answer = _answer(*map(int, sys.argv[2:]))
    except MemoryError:
        answer = "memory"
    print(answer)  # noqa: T201  to the process that asked


def _answer(memory: int, rows: int, texts: int) -> str:
    import pyarrow as pa  # noqa: PLC0415  from the folder of the arguments
    import pyarrow.compute as pc  # noqa: PLC0415
    import pyarrow.parquet  # noqa: PLC0415

    _limit_memory(memory)
    file = pa.parquet.ParquetFile(pa.PythonFile(sys.stdin.buffer, mode="r"))
    # The footer can lie: rows are counted again.
    if file.metadata.num_rows != rows or (table := file.read(use_threads=False)).num_rows != rows:
        return "rows"
    length = 0
    for column in table.columns:
        decoded = column
        if pa.types.is_dictionary(column.type):
            decoded = column.cast(column.type.value_type)
        if not pa.types.is_primitive(decoded.type) and not pa.types.is_nested(decoded.type):
            length += pc.sum(pc.binary_length(decoded)).as_py() or 0
    return "texts" if length > texts else "ok"


def _limit_memory(allowance: int) -> None:
    """Let this process take so many bytes more, where the system can hold it to that."""
    if sys.platform == "linux":
        import resource  # noqa: PLC0415  where there is one

        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123  before pathlib is loaded
            current = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (current + allowance, current + allowance))


if __name__ == "__main__":
    main()
