"""A stranger's files are read within limits, or refused with a sentence."""

import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples import some
from publishing.releases import problems_of, released, seal


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a release folder of labels."""
    return released(tmp_path_factory.mktemp("whole") / "map", "means")


@pytest.fixture
def place(whole, tmp_path):
    """Return a copy of it."""
    return shutil.copytree(whole, tmp_path / "map")


@pytest.fixture
def good(place):
    """Return its table."""
    return pq.read_table(place / "cells.parquet")


def problems_with(place, table, **layout):
    """Return what is found where another table stands, under a receipt that fits."""
    pq.write_table(table, place / "cells.parquet", **layout)
    seal(place)
    return problems_of(place)


LAYOUTS = (
    {"compression": "zstd"}, {"compression": "none"}, {"use_dictionary": False},
    {"data_page_version": "2.0"}, {"row_group_size": 7}, {"data_page_size": 64},
)  # fmt: skip


@pytest.mark.parametrize("layout", some(LAYOUTS, 2))
def test_a_table_is_read_as_it_was_written(place, good, layout):
    """Whatever the layout, the table and its metadata come back."""
    assert problems_with(place, good, **layout) == ()


def put(table, name, value):
    """Return a table with one value in a column."""
    at = table.column_names.index(name)
    return table.set_column(at, name, pa.array([value] * table.num_rows))


REFUSED = {
    "more rows than cells": (
        lambda table: pa.concat_tables([table, table.slice(0, 2)]), {},
        "not as many rows as manifest.json has cells, ",
    ),
    "a column of another type": (
        lambda table: put(table, "users", "1"), {}, "type string, not int64",
    ),
    "nested values": (lambda table: put(table, "users", ["x"]), {}, "type list"),
    "a column twice": (
        lambda table: table.append_column("cell", table["cell"]), {}, "a column twice",
    ),
    "longer texts": (lambda table: put(table, "cell", "x" * 100_000), {}, "longer texts"),
    "a large page": (
        lambda table: put(table, "cell", "x" * 20_000_000),
        {"use_dictionary": False, "compression": "zstd", "write_statistics": False},
        "unpacks to more",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", some(REFUSED, 2))
def test_a_table_that_no_release_has_is_refused(place, good, kind):
    """Rows, types, encodings and sizes are looked at before anything is unpacked."""
    change, layout, sentence = REFUSED[kind]
    (found,) = problems_with(place, change(good), **layout)
    assert found.startswith("cells.parquet ")
    assert sentence in found


@pytest.mark.slow
def test_a_dictionary_that_claims_more_texts_than_rows_is_refused(place, good):
    """A page header of two billion texts makes readers reserve gigabytes before they read one."""
    assert problems_with(place, good, compression="none", write_statistics=False) == ()
    data = bytearray((place / "cells.parquet").read_bytes())
    # The header of the first dictionary: field 7, its number of texts as a varint, its encoding.
    start = data.index(b"\x4c\x15") + 2
    claimed = b"\xfe\xff\xff\xff\x0f"
    assert data[start] == 2 * good.num_rows < 128
    end, further = data.index(b"\x00\x00", start) + 2, len(claimed) - 1
    del data[end : end + further]
    data[start : start + 1] = claimed
    (place / "cells.parquet").write_bytes(data)
    seal(place)
    (found,) = problems_of(place)
    assert found.startswith(("cells.parquet cannot be read", "cells.parquet unpacks to more"))


@pytest.mark.parametrize("data", some([b"", b"PAR1", b"x" * 100, b"\xff\xff\xff\x7fPAR1"], 1))
def test_what_has_no_footer_is_refused(place, data):
    """Too short a file, and a footer longer than the file, are told at once."""
    (place / "cells.parquet").write_bytes(data)
    seal(place)
    assert problems_of(place) == ("cells.parquet cannot be read.",)


def make(kind, path):
    """Put something that is no file in a file's place."""
    path.rename(path.parent / "other")
    if kind == "link":
        path.symlink_to("other")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(257_000_000)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("link", "is a link"), ("device", "is a link"), ("pipe", "is no regular file"),
        ("folder", "is no regular file"), ("large", "is larger than"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["manifest.json", "cells.parquet", "report.html"])
def test_what_is_no_file_is_not_read(place, kind, sentence, name):
    """A link, a pipe, a device, a folder and a huge file are refused when they are opened."""
    make(kind, place / name)
    assert any(found.startswith(f"{name} {sentence}") for found in problems_of(place))


@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}', '{"a": 1, "a": 2}',
        '{"a": "\\ud800"}', '{"a": ' + "9" * 5_000 + "}", '"\udcff"', "{",
    ],
)  # fmt: skip
def test_json_that_says_no_release_is_refused(place, text):
    """Numbers are finite, keys stand once, letters are whole."""
    (place / "manifest.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    (found,) = problems_of(place)
    assert found.startswith("manifest.json cannot be read as JSON")


def test_json_of_many_lists_is_refused(place):
    """A list takes some hundred bytes of memory, and two of text: there are few for the text."""
    (place / "manifest.json").write_text("[" + "[]," * 2_000 + "[]]")
    (found,) = problems_of(place)
    assert found == "manifest.json has more lists and objects than a release has."


@pytest.mark.slow
def test_a_broken_footer_never_ends_the_process(place):
    """Footers with a byte changed are read by another process first, and end in a sentence."""
    path = place / "cells.parquet"
    whole = path.read_bytes()
    start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    found = set()
    for at in range(start, len(whole) - 8, 361):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :])
        seal(place)
        found.update(problems_of(place))
    assert "cells.parquet cannot be read." in found
