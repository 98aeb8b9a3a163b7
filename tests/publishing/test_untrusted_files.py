"""A stranger's files are read within limits, or refused with a sentence."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hexveil.publishing.verification import untrusted_files
from hexveil.publishing.verification.untrusted_files import ImplausibleError

TYPES = {"users": pa.int64(), "mean_raw": pa.float64()}


def good(rows=100):
    """Return a table as a release has one."""
    return pa.table(
        {
            "cell": [f"route {k}" for k in range(rows)],
            "users": np.arange(rows) % 7 + 1,
            "mean_raw": np.linspace(0, 60, rows),
            "mean_quality": ["good", "noise"] * (rows // 2),
            "geometry": pa.array([b"\1" * 90] * rows, pa.binary()),
        }
    )


def write(path, table, **layout):
    pq.write_table(table, path / "cells.parquet", **layout)
    return path / "cells.parquet"


LAYOUTS = (
    {"compression": "zstd"}, {"compression": "none"}, {"use_dictionary": False},
    {"data_page_version": "2.0"}, {"row_group_size": 7}, {"data_page_size": 64},
)  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_table_is_read_as_it_was_written(tmp_path, layout):
    """Whatever the layout, the table and its metadata come back."""
    table = good().replace_schema_metadata({"value": "speed"})
    path = write(tmp_path, table, **layout)
    assert untrusted_files.read_table(path, 100, 2_000, TYPES).equals(table, check_metadata=True)


REFUSED = {
    "more rows than cells": (
        lambda: good(102), {}, "not as many rows as manifest.json has cells, 100",
    ),
    "a column of another type": (
        lambda: good().set_column(1, "users", pa.array(["1"] * 100)), {}, "type string, not int64",
    ),
    "nested values": (
        lambda: good().set_column(0, "cell", pa.array([["x"]] * 100)), {}, "type list",
    ),
    "longer texts": (
        lambda: good().set_column(0, "cell", pa.array(["x" * 1_000] * 100)), {}, "longer texts",
    ),
    "a large page": (
        lambda: good().set_column(0, "cell", pa.array(["x" * 100_000_000, *["y"] * 99])),
        {"use_dictionary": False, "compression": "zstd", "write_statistics": False},
        "unpacks to more",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_a_table_that_no_release_has_is_refused(tmp_path, kind):
    """Rows, types, encodings and sizes are looked at before anything is unpacked."""
    table, layout, sentence = REFUSED[kind]
    path = write(tmp_path, table(), **layout)
    with pytest.raises(ImplausibleError, match=sentence):
        untrusted_files.read_table(path, 100, 2_000, TYPES)


def test_a_dictionary_that_claims_more_texts_than_rows_is_refused(tmp_path):
    """A page header of two billion texts makes readers reserve gigabytes before they read one."""
    path = write(tmp_path, good(), compression="none", write_statistics=False)
    data = bytearray(path.read_bytes())
    # The header of the first dictionary: field 7, its number of texts as a varint, its encoding.
    start = data.index(b"\x4c\x15") + 2
    old, claimed = b"\xc8\x01", b"\xfe\xff\xff\xff\x0f"
    assert data[start : start + len(old)] == old
    end, further = data.index(b"\x00\x00", start) + 2, len(claimed) - len(old)
    del data[end : end + further]
    data[start : start + len(old)] = claimed
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"no file of Parquet|unpacks to more"):
        untrusted_files.read_table(path, 100, 2_000, TYPES)


def test_a_column_twice_is_refused(tmp_path):
    """Two columns of one name could be told apart by one reader and not by another."""
    path = write(tmp_path, good().append_column("cell", good()["cell"]))
    with pytest.raises(ImplausibleError, match="a column twice"):
        untrusted_files.read_table(path, 100, 2_000, TYPES)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"x" * 100, b"\xff\xff\xff\x7fPAR1"])
def test_what_has_no_footer_is_refused(tmp_path, data):
    """Too short a file, and a footer longer than the file, are told at once."""
    (tmp_path / "cells.parquet").write_bytes(data)
    with pytest.raises(ValueError, match="no file of Parquet"):
        untrusted_files.read_table(tmp_path / "cells.parquet", 1, 100, TYPES)


def make(kind, path):
    """Put something that is no file in a file's place."""
    if kind == "link":
        (path.parent / "other").write_text("{}")
        path.symlink_to("other")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(untrusted_files.LIMITS[path.name] + 1)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("link", "is a link"), ("device", "is a link"), ("pipe", "is no regular file"),
        ("folder", "is no regular file"), ("large", "is larger than"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["manifest.json", "cells.parquet", "report.html"])
def test_what_is_no_file_is_not_read(tmp_path, kind, sentence, name):
    """A link, a pipe, a device, a folder and a huge file are refused when they are opened."""
    make(kind, tmp_path / name)
    with pytest.raises(ImplausibleError, match=sentence):
        untrusted_files.open_file(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"a": NaN}', "no number"), ('{"a": -Infinity}', "no number"),
        ('{"a": 1e999}', "not finite"), ('{"a": 1, "a": 2}', "stands twice"),
        ("[" + "[]," * 2_000 + "[]]", "more lists and objects"),
        ('{"a": "\\ud800"}', "surrogates not allowed"), ('{"a": ' + "9" * 5_000 + "}", "limit"),
        ('"\udcff"', "codec|utf-8"), ("{", "Expecting"),
    ],
)  # fmt: skip
def test_json_that_says_no_release_is_refused(text, sentence):
    """Numbers are finite, keys stand once, letters are whole, lists are few for the text."""
    with pytest.raises(ValueError, match=sentence):
        untrusted_files.parse_json(text.encode("utf-8", "surrogateescape"))


@pytest.mark.slow
def test_a_broken_footer_never_ends_the_process(tmp_path):
    """Footers with a byte changed are read by another process first, and end in an error."""
    path = write(tmp_path, good())
    whole = path.read_bytes()
    start = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    refused = 0
    for at in range(start, len(whole) - 8, 61):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :])
        try:
            untrusted_files.read_table(path, 100, 2_000, TYPES)
        except (ValueError, OSError, pa.ArrowException):
            refused += 1
    assert refused > 10
