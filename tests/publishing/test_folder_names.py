"""Folders of data sets: one each, whatever the name and the file system.

A release bears the name of its data set's folder in datapackage.json; that its archive has this
folder: test_archive.py.
"""

import functools
import json
import tempfile
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from publishing.setting import released, small_city

ODD = [
    "", ".", "..", "a/b", "a-b", "a b", "a\\b", "a:b", "A-B", "a.", "a ", ".a", "-a", "a-", "~a",
    "con", "CON", "nul.txt", "com1", "dataset", "Автобусы", "Автобусов", "बसें", "बस", "Kraków",
    "Krako\u0301w", "krakow", "İ", "i", "ß", "ss", "a\0b", "a\nb", "a%2Fb", "x" * 300, "x" * 301,
    "я" * 300, "latest.json", "a-b--c14cddc033f64b9dea80", "🚌", "ﬁ", "fi", "CON.",
]  # fmt: skip
names = st.one_of(st.sampled_from(ODD), st.text(st.characters(codec="utf-8"), max_size=8))
plain = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,20}[a-z0-9]", fullmatch=True)


small_release = functools.cache(lambda: released(small_city()))


@functools.cache
def folder_name(dataset):
    """Return the name of a data set's folder."""
    made = small_release()
    manifest = made.manifest | {"dataset": {"name": dataset}}
    with tempfile.TemporaryDirectory() as home:
        folder = replace(made, manifest=manifest).write(Path(home) / "map")
        name = json.loads((folder / "datapackage.json").read_text("utf-8"))["name"]
    return name.removesuffix(f"-{manifest['request'][:16]}")


def on_any_disk(name):
    """Return what is left of a name on the disk that keeps least of it."""
    folded = unicodedata.normalize("NFKC", folder_name(name)).casefold()
    return folded.rstrip(". ")[:255]


@pytest.mark.slow
@given(names, names)
@example("a/b", "a-b")
@example("Buses", "buses")
@example("Krak\u00f3w", "Krako\u0301w")
def test_two_data_sets_have_two_folders(one, other):
    """Also where capitals do not count, letters are composed, and ends are cut off."""
    assert (on_any_disk(one) == on_any_disk(other)) == (one == other)
    assert folder_name("surat-buses.2_a") == "surat-buses.2_a"


@pytest.mark.slow
@given(st.one_of(names, plain, plain.map(lambda name: folder_name(name.upper()))))
def test_a_folder_is_safe_everywhere(name):
    """Short, in ASCII, one part of a path, hidden nowhere, and no device's name."""
    made = folder_name(name)
    assert 0 < len(made.encode("ascii")) <= 82
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")
    assert made[0] not in ".-"
    assert made[-1] not in ".-"
    assert made.partition(".")[0] not in {"con", "prn", "aux", "nul", "com1", "lpt9"}


@pytest.mark.slow
@given(names, names)
def test_no_name_can_be_made_to_have_another_s_folder(one, other):
    """A data set that is called like another's folder has a folder of its own."""
    made = folder_name(one)
    assert (folder_name(made) == made) == (made == one)
    assert folder_name(other) != made or other == one


@pytest.mark.parametrize(
    ("name", "begins"),
    [("Автобусы 7", "7--"), ("बस", "dataset--"), ("Kraków 2", "krakow-2--"), ("🚌", "dataset--")],
)
def test_a_folder_can_be_read(name, begins):
    """What ASCII has of a name begins its folder."""
    assert folder_name(name).startswith(begins)
