"""Mutants of a release folder: damage of bytes, columns, rows, lines and files, by seeded chance.

A mutant is sealed where whoever made it wrote the receipt anew, as a forger would: then checksums
show nothing, and only what the files say can.
"""

import json
import os
import random

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from attack import fuzz_bytes
from hexveil.publishing import receipt
from hexveil.publishing.estimates import places
from hexveil.publishing.folder import round_to_intervals


def mutate(place, seed):
    """Damage a folder in one way; return what was done, and whether it was sealed."""
    chance = random.Random(seed)  # noqa: S311  a repeatable attack
    what, file = chance.choice(KINDS)(place, chance)
    sealed = file != receipt.NAME and chance.random() <= 0.75
    if sealed:
        seal(place)
    return f"{what} of {file}", sealed


def seal(place):
    """Write the receipt anew over what can be read, as a forger would who has no ledger."""
    if any(
        path.is_symlink() or not path.is_file() or path.stat().st_size > 2 * 10**9
        for path in place.iterdir()
    ):
        return
    manifest = place / "manifest.json"
    if manifest.exists() and manifest.stat().st_size > 10**7:
        return  # millions of lists, and no name of a data set
    try:
        said = json.loads(manifest.read_text("utf-8"))
        said = {"dataset": said["dataset"], "request": said["request"], "ledger": said["ledger"]}
        said["dataset"]["name"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return
    if (place / receipt.NAME).exists():
        (place / receipt.NAME).unlink()
        receipt.write(place, said)


# ---- bytes and files ----


def bytes_of_a_file(place, chance):
    file = chance.choice(sorted(place.iterdir()))
    file.write_bytes(fuzz_bytes.mutant(file.read_bytes(), chance.random()))
    return "bytes", file.name


def a_file(place, chance):
    """Delete, empty, add, exchange, or put something that is no file in its place."""
    file, other = chance.sample(sorted(place.iterdir()), 2)
    way = chance.choice(
        ("gone", "empty", "more", "swap", "link", "pipe", "folder", "sparse", "name")
    )
    if way == "more":
        (place / chance.choice(("x.txt", "..x", "CELLS.CSV", "\u202ecsv", "a\nb"))).write_text("x")
    elif way == "swap":
        mine, its = file.read_bytes(), other.read_bytes()
        file.write_bytes(its)
        other.write_bytes(mine)
    elif way == "empty":
        file.write_bytes(b"")
    elif way == "sparse":
        with file.open("r+b") as grown:
            grown.truncate(10**12)
    elif way == "name":
        file.rename(place / (file.name + "~"))
    else:
        file.unlink()
        {
            "gone": lambda: None,
            "link": lambda: file.symlink_to(other.name),
            "pipe": lambda: os.mkfifo(file),
            "folder": file.mkdir,
        }[way]()
    return f"file {way}", file.name


# ---- tables ----


def a_column(place, chance):
    """Drop, double, rename, exchange or recast a column."""
    table = pq.read_table(place / "cells.parquet")
    name, other = chance.sample(table.column_names, 2)
    way = chance.choice(("gone", "more", "name", "swap", "text", "null", "order"))
    if way == "gone":
        table = table.drop_columns([name])
    elif way == "more":
        table = table.append_column(chance.choice((name, "speed_of_b7", "x")), table[name])
    elif way == "name":
        table = table.rename_columns([f"{n}_" if n == name else n for n in table.column_names])
    elif way == "swap":
        mine, its = table[name], table[other]
        table = _set(_set(table, name, its), other, mine)
    elif way == "text" and name != "geometry":
        table = _set(table, name, table[name].cast(pa.string()))
    elif way == "null":
        table = _set(table, name, pa.nulls(table.num_rows, table[name].type))
    else:
        table = table.select([*table.column_names[1:], table.column_names[0]])
    return _put(place, chance, table, f"column {way}", name)


def rows(place, chance):
    """Take rows away, double them, or put them in another order."""
    table = pq.read_table(place / "cells.parquet")
    order = list(range(table.num_rows))
    way = chance.choice(("fewer", "more", "order", "none"))
    if way == "fewer":
        order.pop(chance.randrange(len(order)))
    elif way == "more":
        order.append(chance.choice(order))
    elif way == "none":
        order = []
    else:
        order.reverse()
    taken = table.take(pa.array(order, pa.int64()))
    return _put(place, chance, taken, f"rows {way}", "")


def _set(table, name, column):
    at = table.column_names.index(name)
    field = table.schema.field(name)
    field = field if column.type == field.type else pa.field(name, column.type)
    return table.set_column(at, field, column)


def _put(place, chance, table, kind, column):
    """Write a table as Parquet, as CSV and GeoJSON, or as all, in other layouts too."""
    which = chance.choice(("all", "all", "cells.parquet", "cells.csv", "cells.geojson"))
    if not (place / which).exists():
        which = "all"
    layout = chance.choice(({}, {"row_group_size": 1}, {"compression": "none"}, {"version": "1.0"},
                            {"use_dictionary": False}, {"data_page_version": "2.0"}))  # fmt: skip
    kind = kind if which == "all" else f"{kind} in one"
    try:
        if which in {"all", "cells.parquet"}:
            pq.write_table(table, place / "cells.parquet", **layout)
        plain = table.drop_columns([c for c in ("geometry",) if c in table.column_names])
        plain = round_to_intervals(plain)
        if which in {"all", "cells.csv"}:
            pa.csv.write_csv(plain, place / "cells.csv")
        if which in {"all", "cells.geojson"} and (place / "cells.geojson").exists():
            (place / "cells.geojson").write_bytes(places.geojson(plain) or b"{}")
    except (ValueError, TypeError, KeyError, pa.ArrowException):
        (place / "cells.csv").write_bytes(b"")
        return "table empty", "cells.csv"
    return f"{kind} {column}", which


def a_line(place, chance):
    """Change a line of a text: of README.txt, the CSV or the page."""
    file = place / chance.choice(("README.txt", "cells.csv", "report.html"))
    lines = file.read_text("utf-8").splitlines(keepends=True)
    at = chance.randrange(len(lines))
    lines[at] = chance.choice(("", lines[at] * 2, lines[at].replace("1", "2"), f" {lines[at]}"))
    file.write_text("".join(lines), "utf-8")
    return "line", file.name


KINDS = (bytes_of_a_file, a_file, a_column, a_column, rows, a_line)
