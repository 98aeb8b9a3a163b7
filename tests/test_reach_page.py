"""The page on how far maps are off: its tables are those of the CSV files."""

import importlib.util
import re
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def reach_page():
    """Return the module that writes the tables; nothing stays loaded."""
    before, path = set(sys.modules), list(sys.path)
    made = importlib.util.spec_from_file_location("hexveil_bench_page", FOLDER / "reach_page.py")
    sys.modules[made.name] = module = importlib.util.module_from_spec(made)
    made.loader.exec_module(module)
    yield module
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name.startswith("hexveil_bench_") or name in {"reach", "collection", "intervals"}:
            del sys.modules[name]


@pytest.fixture(scope="module")
def rows(reach_page):
    """Return the rows of the CSV."""
    return reach_page.load_rows(reach_page.FIGURES / "clipping-ranges.csv")


def test_tables_of_the_page_are_those_of_the_files(reach_page, rows):
    """The page has every table, as the files make it; another figure would change it."""
    page = reach_page.PAGE.read_text(encoding="utf-8")
    assert reach_page.rewrite(page, rows) == page
    assert set(re.findall("<!-- table: ([^>]+) -->", page)) == set(reach_page.tables(rows))
    changed = [replace(row, error=2.0 * row.error) for row in rows]
    assert reach_page.rewrite(page, changed) != page


def test_every_judging_set_has_its_rows(reach_page, rows):
    """Each judging set was measured, and wherever it was, with each range and by default."""
    judged = reach_page.Judged(rows)
    places = {(row.set, row.epsilon) for row in judged.rows}
    assert set(judged.at) == {(*place, kind) for place in places for kind in reach_page.RANGES}
    judging = [one.name for one in sys.modules["collection"].selected("judging")]
    assert {(name, epsilon) for name in judging for epsilon in ("0.5", "1")} <= places


def row_of(reach_page, **changes):
    """Return a row of a judging set."""
    usual = dict.fromkeys([field.name for field in fields(reach_page.Row)], 0.0)
    usual |= {"label": "now", "set": "aircraft", "model": "values", "epsilon": "1", "delta": "0"}
    usual |= {"releases": 8, "cells": 9, "constant": 4.0, "error": 2.0, "coverage": 0.95}
    usual |= {"worst": 0.5, "stated": 2.0, "clipping_range": "auto", "taken": "bounds"}
    return reach_page.Row(**usual | changes)


def test_the_summary_counts_and_compares(reach_page):
    """Against the least error of the fixed ranges; limits belong to what they bound."""
    errors = {"bounds": 2.0, "private": 1.6, "per-cell": 3.2, "auto": 2.0}
    made = [
        row_of(reach_page, epsilon=epsilon, clipping_range=kind, taken=kind, error=error, **more)
        for kind, error in errors.items()
        for epsilon, more in (
            ("1", {"coverage": 0.93, "stated": 1.3 * error}),
            ("2", {"coverage": 0.899, "stated": 0.69 * error}),
        )
    ]
    lines = {line.split(" | ")[0][2:]: line.split(" | ")[1:] for line in reach_page.summary(made)}
    assert lines["error over the best in hindsight, average"][:2] == ["1.25", "1.25"]
    assert lines["error over the best in hindsight, largest"][2] == "1.00"
    assert lines["coverage from 93 to 98%"][0] == "1 of 2"
    assert lines["coverage below 90%"][0] == "1 of 2"
    assert lines["coverage, least"][0] == "89.9%"
    assert lines["typical error within 30% of the true one"][0] == "1 of 2"
    assert lines["typical error more than 30% too small"][0] == "1 of 2"


def test_rows_measured_again_replace_those_of_the_file(reach_page, tmp_path):
    """Of each place the last row counts; rows of other sets and epsilons stay."""
    add_row, file = sys.modules["intervals"].add_row, tmp_path / "rows.csv"
    again = row_of(reach_page, set="ships", releases=50)
    old = [
        row_of(reach_page),
        row_of(reach_page, set="ships"),
        row_of(reach_page, set="ships", epsilon="2"),
    ]
    for row in (*old, again):
        add_row(file, row)
    assert reach_page.load_rows(file) == [old[0], again, old[2]]
