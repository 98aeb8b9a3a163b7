"""Mutants of a release folder: damage of bytes, fields, columns, rows and files, by seeded chance.

A mutant is sealed where whoever made it wrote the receipt anew, as a forger would: then checksums
show nothing, and only what the files say can.
"""

import json
import os
import random
import shutil
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from attack import fuzz_bytes
from hexveil.publishing import receipt
from hexveil.publishing.estimates import places
from hexveil.publishing.folder import round_to_intervals

NUMBERS = (0, -1, 1, 2**31, 2**63, -(10**30), 1e308, 5e-324, 0.1, float("nan"), float("inf"))
OTHERS = (None, "", "x" * 3000, "\ud800", "\x1b[2J", "1/0", "NaN", "=1+1", [], {}, [[]], True)
TIMES = (0.5, 2.0, -1.0, 1.001, 1e9, 1e-9)


@dataclass(frozen=True)
class Mutant:
    """What was done to a folder.

    Attributes
    ----------
    kind : str
    file : str
    where : tuple
        Of a manifest the path of the field, of a table the column; else nothing.
    sealed : bool
        Whether the receipt was written anew.
    """

    kind: str
    file: str
    where: tuple = ()
    sealed: bool = False


def mutate(place, seed):
    """Damage a folder in one way and return what was done."""
    chance = random.Random(seed)  # noqa: S311  a repeatable attack
    done = Mutant(*chance.choice(KINDS)(place, chance))
    if done.file == receipt.NAME or chance.random() > 0.75:
        return done
    seal(place)
    return replace(done, sealed=True)


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


# ---- fields of JSON ----


def a_field(place, chance, name=None):
    file = place / (name or chance.choice(("manifest.json",) * 4 + ("receipt.json",)))
    said = json.loads(file.read_text("utf-8"))
    path = chance.choice(sorted(paths(said), key=repr))
    said = changed(said, path, chance)
    file.write_text(json.dumps(said, indent=2, ensure_ascii=True), "utf-8")
    return "field", file.name, path


def paths(said, path=()):
    """Yield the path of every field."""
    if path:
        yield path
    if isinstance(said, (dict, list)):
        for key, part in said.items() if isinstance(said, dict) else enumerate(said):
            yield from paths(part, (*path, key))


def changed(said, path, chance):
    """Return JSON with one field changed, exchanged, renamed, doubled or taken away."""
    *above, last = path
    holder = said
    for key in above:
        holder = holder[key]
    old, way = holder[last], chance.choice(("value", "value", "other", "gone", "near"))
    if way == "gone":
        del holder[last]
    elif way == "near" and isinstance(holder, list):
        holder.append(old)
    elif way == "near":
        holder[f"{last}_"] = holder.pop(last)
    elif way == "value" and isinstance(old, (int, float)) and not isinstance(old, bool):
        holder[last] = chance.choice((old * chance.choice(TIMES), old + 1, chance.choice(NUMBERS)))
    elif way == "value" and isinstance(old, str) and old:
        holder[last] = chance.choice((old[:-1], old + "0", "-" + old, old.upper() + " "))
    else:
        holder[last] = chance.choice((*OTHERS, *NUMBERS))
    return said


# ---- tables ----


def a_number(place, chance):
    """Change one number of a column, in all tables or in one."""
    table = pq.read_table(place / "cells.parquet")
    names = [f.name for f in table.schema if pa.types.is_floating(f.type) or f.name in COUNTS]
    name, row = chance.choice(names), chance.randrange(table.num_rows)
    numbers = table[name].to_pylist()
    try:
        number = chance.choice((numbers[row] * chance.choice(TIMES), chance.choice(NUMBERS)))
        numbers[row] = type(numbers[row])(number)
        column = pa.array(numbers, table.schema.field(name).type)
    except (ValueError, OverflowError, pa.ArrowException):
        numbers[row] = table[name][row].as_py() + 1
        column = pa.array(numbers, table.schema.field(name).type)
    return _put(place, chance, _set(table, name, column), "number", name)


COUNTS = ("users", "records")


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
    return kind, which, (column,)


def a_value_of_geojson(place, chance):
    if not (place / "cells.geojson").exists():
        return a_field(place, chance)
    return a_field(place, chance, "cells.geojson")


def a_line(place, chance):
    """Change a line of a text: of README.txt, the CSV or the page."""
    file = place / chance.choice(("README.txt", "cells.csv", "report.html"))
    lines = file.read_text("utf-8").splitlines(keepends=True)
    at = chance.randrange(len(lines))
    lines[at] = chance.choice(("", lines[at] * 2, lines[at].replace("1", "2"), f" {lines[at]}"))
    file.write_text("".join(lines), "utf-8")
    return "line", file.name


KINDS = (
    bytes_of_a_file, bytes_of_a_file, a_file, a_field, a_field, a_field, a_number, a_number,
    a_column, rows, a_value_of_geojson, a_line,
)  # fmt: skip


def copied(source, place):
    """Return a copy of a folder that can be damaged."""
    return shutil.copytree(source, place)
