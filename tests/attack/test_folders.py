"""Release folders that a stranger damaged or forged: each ends in a sentence, none in a traceback.

And what verification takes of memory, for folders that were made to take much.
"""

import collections
import resource
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from attack import folder_mutants, fuzz_bytes
from hexveil.base.errors import InputError
from hexveil.cli.commands.folder_command import rows
from hexveil.cli.formatting import text_of
from hexveil.publishing.verification import verify
from publishing.releases import released

MANY = 2_000 if fuzz_bytes.LONG else 150
PLANS = ("means", "per-cell", "squares", "interval", "cell-ranges")
BEYOND = ("_noisy",)
"""A number beyond the bounds is on its grid, and clamped to the bounds, wherever it is."""
COUNTS = ("users", "records")
"""Under a private clipping range weights stand for counts, which then are in no other figure."""
OPEN = {
    "means": (*BEYOND, "_smoothed", "_low", "_high"),
    "interval": (*BEYOND, *COUNTS, "_low", "_high", "_quality", "_error"),
    "cell-ranges": (*BEYOND, *COUNTS, "_low", "_high", "_quality", "_error"),
}
"""Columns that nothing in such a folder determines, but for limits."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return a release folder of each kind of plan, of hexagons or of labels."""
    home = tmp_path_factory.mktemp("releases")
    made = {
        name: released(
            home / name, name, mapped=name in {"means", "interval"}, smoothed=name == "means"
        )
        for name in PLANS
    }
    assert all(verify.find_problems(folder) == () for folder in made.values())
    return made


def look(place):
    """Return what verification finds, as it is printed, and whether anything is wrong."""
    try:
        verdict = verify.check_folder(place)
    except InputError as error:
        return [str(error)], True
    told = text_of(rows(place, verdict)).splitlines()
    assert all(line.isprintable() for line in told)
    assert "\n".join(told).encode()
    return told, bool(verdict.problems)


def same(one, other, but):
    """Return whether two folders say the same in all tables, but for some columns."""
    for name in ("cells.parquet", "cells.csv"):
        read = pq.read_table if name.endswith("parquet") else pa.csv.read_csv
        mine, its = read(one / name), read(other / name)
        if mine.column_names != its.column_names:
            return False
        checked = [column for column in mine.column_names if not column.endswith(but)]
        if mine.select(checked).to_pylist() != its.select(checked).to_pylist():
            return False
    return True


@pytest.mark.slow
def test_damaged_folders_end_in_a_sentence(folders, tmp_path, capsys):
    """What is not sealed anew is always found; what is, wherever a number of it is checked."""
    seen = collections.Counter()
    names = list(folders)
    with fuzz_bytes.guard():
        for at in range(MANY):
            source = folders[names[at % len(names)]]
            place = shutil.copytree(source, tmp_path / f"{at}")
            what, sealed = folder_mutants.mutate(place, f"folder {at}")
            told, wrong = look(place)
            if not wrong:
                judge(source, place, f"{at}: {what}: {told}", sealed=sealed)
            seen["wrong" if wrong else "harmless" if changed(source, place) else "unchanged"] += 1
            shutil.rmtree(place)
    with capsys.disabled():
        if fuzz_bytes.LONG:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000
            print(f"\n{MANY} folders: {dict(seen)}, none with a traceback; {peak} MB at most")  # noqa: T201
    assert seen["wrong"] > 0.75 * MANY


def changed(source, place):
    """Return whether a byte of a folder is another."""
    return any((place / p.name).read_bytes() != p.read_bytes() for p in source.iterdir())


def judge(source, place, said, *, sealed):
    """Fail unless what was accepted says the same, or differs where nothing can be checked."""
    if not sealed:
        for path in source.iterdir():
            if path.name == "receipt.json":  # blanks in it, or a key more, say nothing else
                continue
            assert (place / path.name).read_bytes() == path.read_bytes(), said
    assert same(source, place, OPEN.get(source.name, BEYOND)), said


# ---- folders that would take much ----

CHILD = """\
import re, sys
from pathlib import Path
from hexveil.publishing.verification import verify
def peak():
    # Not ru_maxrss: a process begins with that of the one that started it.
    return int(re.search(r"VmHWM:\\s+([0-9]+)", Path("/proc/self/status").read_text())[1])
before = peak()
for place in map(Path, sys.argv[1:]):
    found = verify.find_problems(place)
    print(place.name, len(found), (peak() - before) // 1000)
"""
MOST = 300
"""Megabytes beside what the program itself takes."""


def texts_by_index(place):
    """Repeat one long text in every row by its number in a dictionary."""
    table = pq.read_table(place / "cells.parquet")
    long = pa.array(["x" * 15_000_000] * table.num_rows)
    pq.write_table(table.set_column(0, "cell", long), place / "cells.parquet", compression="zstd")


def rows_of_zeros(place):
    """Have twenty-five million rows of zeros in a few kilobytes."""
    names = pq.read_schema(place / "cells.parquet").names
    zeros = pa.table({"users": pa.array(memoryview(bytes(20 * 10**7)).cast("q"))})
    assert "users" in names
    pq.write_table(zeros, place / "cells.parquet", compression="zstd")


def one_long_text(place):
    """Unpack to 200 megabytes of one letter, as a plain text in the first row."""
    table = pq.read_table(place / "cells.parquet")
    long = pa.array(["x" * (2 * 10**8), *table["cell"].to_pylist()[1:]])
    pq.write_table(
        table.set_column(0, "cell", long), place / "cells.parquet", compression="zstd",
        use_dictionary=False, write_statistics=False,
    )  # fmt: skip


def prefixes(place):
    """Take each text from the one before it, which costs nothing in the file."""
    table = pq.read_table(place / "cells.parquet")
    long = pa.array(["x" * 15_000_000] * table.num_rows)
    pq.write_table(
        table.set_column(0, "cell", long), place / "cells.parquet", compression="zstd",
        use_dictionary=False, write_statistics=False, column_encoding={"cell": "DELTA_BYTE_ARRAY"},
    )  # fmt: skip


def lists(place):
    """Fill the manifest with empty lists."""
    (place / "manifest.json").write_text('{"cells": [' + "[]," * 10_000_000 + "[]]}")


def nested(place):
    """Put lists into lists."""
    (place / "manifest.json").write_text("[" * 10_000_000)


def large_csv(place):
    """Have a hundred megabytes of rows in the CSV."""
    with (place / "cells.csv").open("ab") as file:
        file.write(b"1,1,1,1\n" * 12_500_000)


def columns_of_csv(place):
    """Have a million columns in the CSV."""
    (place / "cells.csv").write_bytes(b"a," * 5_000_000 + b"\n")


def places_of_geojson(place):
    """Fill the map with lists."""
    (place / "cells.geojson").write_text('{"features": [' + "[[]]," * 9_000_000 + "[]]}")


BOMBS = (
    texts_by_index, rows_of_zeros, one_long_text, prefixes, lists, nested, large_csv,
    columns_of_csv, places_of_geojson,
)  # fmt: skip


@pytest.mark.slow
def test_small_files_do_not_take_much_memory(folders, tmp_path):
    """What would unpack to much more is told by its headers and sizes, and is not read."""
    for bomb in BOMBS:
        place = shutil.copytree(folders["means"], tmp_path / bomb.__name__)
        bomb(place)
        folder_mutants.seal(place)
    places = [str(tmp_path / bomb.__name__) for bomb in BOMBS]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *places],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    told = [line.split() for line in done.stdout.splitlines()]
    assert len(told) == len(BOMBS)
    assert [name for name, found, took in told if int(found) == 0 or int(took) >= MOST] == []
