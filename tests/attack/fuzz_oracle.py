"""What records of labels should become, worked out slowly, and parsers that share no code.

A parser returns None where a file can be read in more than one way: then only what is true of any
reading is checked.
"""

import csv
import io
import json
import math
import re
from collections import Counter
from fractions import Fraction

import pyarrow as pa

import hexveil as hv
from hexveil.base.errors import InputError, StorageError
from hexveil.publishing.markup import clean
from records import oracle

BOUNDS, QUANTUM = (-5, 60), "0.5"
SCALE = tuple(map(Fraction, (*BOUNDS, QUANTUM)))
NAMES = ("user", "speed", "route", "time")
UNUSABLE = (
    "unparsable",
    "without a usable value",
    "without a user",
    "without a usable time",
    "without a usable place",
)
MALFORMED = object()
"""A line that is no record."""


def read(source, **more):
    """Read records of labels; return the data set, or the error a person would be told."""
    arguments = {
        "user": "user",
        "value": "speed",
        "time": "time",
        "bounds": BOUNDS,
        "quantum": QUANTUM,
        "cells": hv.Labels("route"),
        "select": hv.Select(min_users=1),
        "timezone": "UTC",
        "max_bad_rows": 1,
        "max_repeats": 1,
    }
    try:
        return hv.read(source, **(arguments | more))
    except (InputError, StorageError) as error:
        return checked_error(error)


def checked_error(error, *named):
    """Return an error if it is one clear sentence: in our words, on one line, with its end.

    Of the names, if there are any, it says one.
    """
    text = clean(str(error))  # as the command says it: names of columns may hold line breaks
    assert not named or any(name in text for name in named), text
    assert text.endswith((".", "?")), text
    for foreign in ("Traceback", "Error:", "duckdb", "pyarrow", "SELECT "):
        assert foreign not in text.replace('engine must be "duckdb"', ""), text
    return error


def found(dataset):
    """Return the public rules, and {(label, user): (n, sum, squares)} of a data set."""
    occupancy, sums = dataset.occupancy, dataset.sums
    labels = dataset.public.cells.labels["route"]
    users = dataset.units.users.to_pylist()
    columns = (occupancy.cell, occupancy.user, occupancy.n, sums.total, sums.total_sq)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    pairs = {(labels[cell], users[user]): tuple(rest) for cell, user, *rest in rows}
    return dict(dataset.public.rules), pairs


def expected(records):
    """Return the same of records (user, value, label, microseconds), some of them `MALFORMED`."""
    left_out, passed = Counter(), []
    for record in records:
        why = _why(record)
        left_out[why] += 1
        if why is None:
            user, value, label, micros = record
            passed.append((user, int(micros), label.encode(), oracle.quanta(value, *SCALE)))
    pairs, kept = {}, oracle.without_repeats(passed)
    for user, _, label, k in kept:
        n, total, squares = pairs.get((label.decode(), user), (0, 0, 0))
        pairs[label.decode(), user] = n + 1, total + k, squares + k * k
    cells = len({label for label, _ in pairs})
    rules = {"records read": sum(left_out.values())}
    rules |= {why: left_out[why] for why in UNUSABLE}
    rules["repeats of a user and time"] = left_out[None] - len(kept)
    rules |= {"cells before selection": cells, "cells left out by selection": 0}
    return rules | {"records left": len(kept)}, pairs


def _why(record):
    """Return why a record is left out, or None."""
    if record is MALFORMED:
        return UNUSABLE[0]
    user, value, label, micros = record
    usable = (
        value is not None and math.isfinite(value),
        user not in (None, ""),
        micros is not None and 0 <= micros < oracle.LAST * 10**6,
        label not in (None, ""),
    )
    return next((why for why, good in zip(UNUSABLE[1:], usable, strict=True) if not good), None)


def check(outcome, records):
    """Compare a reading with records that a parser found, or with none if it found several ways."""
    if isinstance(outcome, Exception):
        assert records is None or not expected(records)[1], (outcome, records)
        return
    rules, pairs = found(outcome)
    if records is not None:
        assert (rules, pairs) == expected(records)
    assert rules["records left"] == sum(n for n, *_ in pairs.values())
    unused = sum(count for rule, count in rules.items() if rule.startswith(("with", "unp", "rep")))
    assert rules["records read"] == rules["records left"] + unused


_NUMBER = re.compile(r"[ \t\n\r\v\f]*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[ \t\n\r\v\f]*", re.ASCII)


class SeveralWays(Exception):  # noqa: N818  no error: the file is left to the invariants
    """A text that parsers may read in more than one way."""


def number(text):
    """Return the number in a text, or None."""
    if text is None:
        return None
    if re.search(r"\d_\d", text):  # some count an underline as no letter
        raise SeveralWays
    return float(text) if _NUMBER.fullmatch(text) else None


def microseconds(text):
    """Return the microseconds since 1970 of a number of seconds or milliseconds, or None."""
    seconds = number(text)
    if seconds is None:
        if text is not None and re.match(r"\s*\d{4}-", text):
            raise SeveralWays
        return None
    if not abs(seconds) < 1e13:
        return None
    micros = seconds * (1e3 if abs(seconds) >= 1e11 else 1e6)
    return math.copysign(math.floor(abs(micros) + 0.5), micros)


def of_texts(texts):
    """Return a record from the texts of its fields by name."""
    user, speed, route, time = (texts.get(name) for name in NAMES)
    return user or None, number(speed), route or None, microseconds(time)


def csv_records(data):
    """Return the records of a CSV file, by rules of its own; None where there are several ways."""
    if re.search(rb"[\r\0\"]", data) or not data.strip(b"\n"):
        return None
    head, *lines = data.split(b"\n")
    try:
        first = head.decode("utf-8-sig")
        mark = max(",;\t|", key=first.count)
        names = first.split(mark)
        if set(NAMES) - set(names) or not all(names):  # a column without a name is refused
            return None
        if len(set(map(str.lower, names))) < len(names):
            return None
        return [_csv_record(line, names, mark) for line in lines if line]
    except (UnicodeDecodeError, SeveralWays):
        return None


def _csv_record(line, names, mark):
    fields = line.split(mark.encode())
    if len(fields) == len(names) + 1 and not fields[-1]:  # a separator at the end: some allow it
        raise SeveralWays
    if len(fields) != len(names):
        return MALFORMED
    # A letter that is none spoils a line only where it is looked at.
    used = {name: field for name, field in zip(names, fields, strict=True) if name in NAMES}
    try:
        return of_texts({name: field.decode() for name, field in used.items()})
    except UnicodeDecodeError:
        return MALFORMED


def quoted_records(data):
    """Return the records of a CSV file with quotes, by Python's strict parser; None if it fails."""
    try:
        rows = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
        names = rows[0]
        if re.search(rb'[ \t]"|"[ \t]', data):  # blanks beside quotes: some readers drop them
            return None
        if b"\r" in data or b"\0" in data or set(NAMES) - set(names) or not all(names):
            return None
        if any(len(row) != len(names) for row in rows if row) or len(set(names)) < len(names):
            return None
        return [of_texts(dict(zip(names, row, strict=True))) for row in rows[1:] if row]
    except (UnicodeDecodeError, csv.Error, IndexError, SeveralWays):
        return None


def ndjson_records(data):
    """Return the records of a file with a JSON document a line; None where there are two ways."""
    try:
        lines = data.split(b"\n")
        if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"[" or re.search(rb"[\0\v\f]", data):
            return None
        return [_document(line) for line in lines if line.strip(b" \t\r")]
    except SeveralWays:
        return None


def _document(line):
    try:
        return of_json(_loaded(line.decode()))
    except UnicodeDecodeError:
        return MALFORMED
    except json.JSONDecodeError:
        if _LENIENT.search(line):
            raise SeveralWays from None
        return MALFORMED


_LENIENT = re.compile(rb",\s*[]}]|nan|inf", re.IGNORECASE)
"""Commas before an end, and numbers that are none: some parsers take them."""


def _loaded(text):
    """Return what JSON says."""
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError):  # numbers of thousands of digits, deep nests
        raise SeveralWays from None


def array_records(data):
    """Return the records of a JSON array; None if it is none, or can be read in two ways."""
    try:
        documents = _loaded(data.decode())
        return [of_json(one) for one in documents] if isinstance(documents, list) else None
    except (ValueError, SeveralWays):
        return None


def of_json(document):
    """Return a record from a JSON document."""
    if not isinstance(document, dict):
        return MALFORMED
    texts = {name: document.get(name) for name in NAMES}
    names = {name: _name(texts[name]) for name in ("user", "route")}
    return of_texts({name: _plain(text) for name, text in texts.items()} | names)


def _name(value):
    """Return what is in a JSON field as text, if all parsers write it so."""
    if isinstance(value, (bool, dict, list, float)):
        raise SeveralWays
    return _plain(value)


def _plain(value):
    if isinstance(value, (dict, list)):
        return "nested"
    if isinstance(value, str):
        _whole_letters(value)
    return None if value is None else str(value)


def _once(pairs):
    """Return an object whose keys are there once."""
    made = dict(pairs)
    if len(made) < len(pairs):
        raise SeveralWays
    for key in made:
        _whole_letters(key)
    return made


def _whole_letters(text):
    if re.search("[\ud800-\udfff]", text):  # half a letter: a document that is none, for some
        raise SeveralWays


def _no_number(_word):
    raise SeveralWays


def arrow_records(table):
    """Return the records of a typed table: text, double, text, instant."""
    columns = [table[name] for name in NAMES]
    columns[3] = columns[3].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return [(user, value, label, micros) for user, value, label, micros in rows]
