"""One canonical text for a user id, whatever type its column has; floats without one refused."""

import datetime as dt
import itertools
import subprocess
import sys
import uuid
import warnings
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples import some
from hexveil import InputError, Labels, Ledger, Select, from_sums, read

pytestmark = pytest.mark.filterwarnings("ignore:user. .* are equal as numbers:UserWarning")
WARD = {"value": "v", "bounds": (0, 65), "cells": Labels("w"), "max_bad_rows": 1, "max_repeats": 1}
SAFE = 2.0**53
KINDS = {
    "whole": (pa.array([7, -3, None, 2**62]), ["-3", "4611686018427387904", "7"]),
    "unsigned": (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
    "float": (pa.array([7.0, -3.0, -0.0, 0.0, None, np.nan, SAFE - 1]),
              ["-3", "0", "7", "9007199254740991"]),
    "short float": (pa.array([7.0, None, 2.0**24 - 1], pa.float32()), ["16777215", "7"]),
    "half": (pa.array([np.float16(7)]), ["7"]),
    "decimal": (pa.array([Decimal(t) for t in ("7.00", "-3.00", "0.00", "7.50", "10.00")]),
                ["-3", "0", "10", "7", "7.5"]),
    "whole decimal": (pa.array([Decimal(70)], pa.decimal128(38, 0)), ["70"]),
    "long decimal": (pa.chunked_array([[Decimal("7.00"), None], [Decimal("0.00"), Decimal("1.25")]],
                                      pa.decimal256(60, 9)), ["0", "1.25", "7"]),
    "dictionary": (pa.array([7.0, None, 7.0]).dictionary_encode(), ["7"]),
    "date": (pa.array([dt.date(2026, 11, 20)]), ["2026-11-20"]),
    "date of 64 bits": (pa.array([dt.date(2026, 11, 20)], pa.date64()), ["2026-11-20"]),
    "uuid": (pa.array([uuid.UUID(int=7).bytes], pa.uuid()), [str(uuid.UUID(int=7))]),
    "text": (pa.array(["7", "7.0", "7.00", " 7", "007", "+7", "7e0", "-0", "", None]),
             [" 7", "+7", "-0", "007", "7", "7e0"]),
    "text of floats": (pa.array(["-0.0", "0.00", "-7.0", "007.0", "7.5", "7.", ".0", "1e3", "7.0\n",
                                 "10.00", "9007199254740993.0"]),
                       ["-7", ".0", "0", "007.0", "10", "1e3", "7.", "7.0\n", "7.5",
                        "9007199254740993"]),
    "text in a dictionary": (pa.array(["7.0"]).dictionary_encode(), ["7"]),
}  # fmt: skip


SUMS = {"cell": "x", "n": 1, "sum": 1.0}


def table(ids):
    """Return a record for each id."""
    return pa.table({"bus": ids, "v": [1.0] * len(ids), "w": ["x"] * len(ids)})


def ids_of(source, **more):
    """Return the ids of the units that are read."""
    found = read(source, user="bus", select=Select(min_users=1), **WARD, **more)
    return [name.decode() for name in found.units.ids()]


@pytest.mark.parametrize("kind", some(KINDS, 4))
def test_an_id_has_one_text_whatever_its_type(kind):
    """Whole numbers, floats and decimals of any scale are digits; all else is as it stands.

    So it is in a field of a struct, where the engine reads it, and in a table of sums.
    """
    ids, expected = KINDS[kind]
    assert ids_of(table(ids)) == expected
    sums = pa.table({"user": ids} | {k: [v] * len(ids) for k, v in SUMS.items()})
    found = from_sums(sums, bounds=(0, 65), min_users=1)
    assert [name.decode() for name in found.units.ids()] == expected
    if "dictionary" not in kind and kind not in ("long decimal", "half"):
        rows = table(pa.StructArray.from_arrays([ids], ["id"]))
        found = read(rows, user="bus.id", select=Select(min_users=1), **WARD)
        assert [name.decode() for name in found.units.ids()] == expected


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([7.0, 7.5]), pa.array([7.0, float("inf")]), pa.array([7.0, -float("inf")]),
        pa.array([7.0, SAFE]), pa.array([7.0, -1e300]), pa.array([7.0, 2.0**24], pa.float32()),
        pa.array([7.0, 5e-324]),
    ],
    ids=str,
)  # fmt: skip
def test_a_float_that_names_no_vehicle_is_refused(ids):
    """Not whole, infinite, or so large that neighbours share it: refused, the id not shown."""
    with pytest.raises(InputError, match=r"user: the column 'bus' .*\(records: 1\)") as caught:
        ids_of(table(ids))
    assert "e+" not in str(caught.value)
    sums = {"cell": ["x"] * 2, "user": ids, "n": [1] * 2, "sum": [1.0] * 2}
    with pytest.raises(InputError, match=r"user: the column 'user' .*\(records: 1\)"):
        from_sums(pa.table(sums), bounds=(0, 65), min_users=1)


JSON = ["7", "7.0", "7.00", "7e0", '"7.0"', "-0.0", "18446744073709551616", '"nan"', "null", "true",
        "false", '"7"', '""', '"true"']  # fmt: skip


@pytest.mark.parametrize("nested", [False, True])
def test_numbers_in_json_are_told_from_text(tmp_path, nested):
    """A number of JSON is spelled as that of a column, and text is left as it is."""
    rows = [f'{{"bus": {name}, "v": 1, "w": "x"}}' for name in JSON]
    (tmp_path / "r.jsonl").write_text("\n".join(rows))
    source = tmp_path / "r.jsonl"
    if nested:
        source = pa.table({"d": rows})
    names = {"user": "d.bus", "value": "d.v", "cells": Labels("d.w")} if nested else {}
    asked = {**WARD, "user": "bus", **names, "select": Select(min_users=1)}
    found = [name.decode() for name in read(source, **asked).units.ids()]
    assert found == ["0", "18446744073709551616", "7", "nan", "true"]


@pytest.mark.parametrize("number", ["7.5", "1e20", "9007199254740993.0"])
def test_a_number_of_json_that_is_not_exact_is_refused(tmp_path, number):
    """As a float of a column is."""
    (tmp_path / "r.json").write_text(f'[{{"bus": {number}, "v": 1, "w": "x"}}]')
    with pytest.raises(InputError, match="user: the column 'bus' holds ids that are not whole"):
        ids_of(tmp_path / "r.json")


FILES = {"whole": pa.array([7]), "float": pa.array([7.0]), "decimal": pa.array([Decimal("7.00")]),
         "text": pa.array(["7"])}  # fmt: skip


@pytest.mark.parametrize(("one", "other"), [*itertools.combinations(FILES, 2)])
def test_files_of_two_types_give_one_id_or_are_refused(tmp_path, one, other):
    """Files whose ids differ in type are read as one type; numbers never become odd text."""
    for name in (one, other):
        pq.write_table(table(FILES[name]), tmp_path / f"{name}.parquet")
    paths = [str(tmp_path / f"{name}.parquet") for name in (one, other)]
    if other == "text" and one != "whole":
        with pytest.raises(InputError, match="text in some files and numbers in others"):
            ids_of(paths)
        return
    assert ids_of(paths) == ["7"]


OF_ANOTHER = """
import importlib.metadata, sys
version = importlib.metadata.version
importlib.metadata.version = lambda name: "0.0.1" if name == sys.argv[2] else version(name)
import hexveil as hv
hv.read(sys.argv[1] + "/r.parquet", user="bus", value="v", bounds=(0, 65), cells=hv.Labels("w"),
        select=hv.Select(min_users=1), cache=sys.argv[1] + "/cache", version="1")
"""


@pytest.mark.slow
@pytest.mark.parametrize("package", ["hexveil", "duckdb"])
def test_the_cache_keeps_no_id_of_another_form(tmp_path, package):
    """Sums that another version has kept, perhaps by other texts of ids, are not added to these."""
    pq.write_table(table(pa.array([7.0, 8.0])), tmp_path / "r.parquet")
    subprocess.run([sys.executable, "-c", OF_ANOTHER, tmp_path, package], check=True)
    of_another = set((tmp_path / "cache").glob("*.entry"))
    found = ids_of(tmp_path / "r.parquet", cache=tmp_path / "cache", version="1")
    assert found == ["7", "8"]
    assert of_another.isdisjoint((tmp_path / "cache").glob("*.entry"))


def test_the_ledger_pins_this_form(tmp_path):
    """An account names the canonical form of ids: another one has another number."""
    book = Ledger(tmp_path / "book.sqlite", dataset="buses", budget=1)
    assert book.account.ids.startswith("canonical text 2, then 0x1f and the period;")


ALIKE = ["7", "007", "+7", " 7", "7e0", "8", "bus 7", "0x7", "8.50", "08.5", "9", "1e9"]
ALIKE += ["9007199254740992", "9007199254740993"]
"""Of these the first five are one number, and so are 8.50 and 08.5; the last two are one double."""


@pytest.mark.parametrize("door", ["read", "from_sums"])
def test_ids_that_are_one_number_in_several_spellings_are_counted(door):
    """The number of ids is said, none of them; with private presence nothing is."""
    if door == "read":
        tried = lambda **more: ids_of(table(pa.array(ALIKE)), **more)  # noqa: E731
    else:
        sums = {"cell": "x", "user": ALIKE, "n": 1, "sum": 1.0}
        rows = pa.table({k: v if k == "user" else [v] * len(ALIKE) for k, v in sums.items()})
        tried = lambda: from_sums(rows, bounds=(0, 65), min_users=1)  # noqa: E731
    with pytest.warns(UserWarning, match="7 ids in the column '(bus|user)' are equal as") as caught:
        tried()
    assert "8.5" not in str(caught[0].message)


def test_private_presence_says_nothing_of_ids():
    """How many are alike is private there: no warning, and no other result."""
    arguments = {**WARD, "cells": Labels("w", values=["x"]), "protect": "presence"}
    del arguments["max_bad_rows"], arguments["max_repeats"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(table(pa.array(ALIKE)), user="bus", **arguments).public.grid.n_cells == 1
