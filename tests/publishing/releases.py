"""Small releases of every kind of plan, as folders, what forges them, and what is found."""

import contextlib
import copy
import hashlib
import io
import json
import shutil
from dataclasses import replace
from functools import cache

import h3
import pyarrow as pa

import hexveil as hv
from hexveil.cli import main

PLANS = {
    "means": {"epsilon": 2, "clipping_range": "bounds"},
    "per-cell": {"epsilon": 2, "method": "per-cell"},
    "clip-user": {"epsilon": 2, "method": "clip-user"},
    "equal-split": {"epsilon": 2, "method": "equal-split"},
    "squares": {"epsilon": 40, "clipping_range": "bounds",
                "statistics": ("mean", "variance", "sd")},
    "variance": {"epsilon": 40, "clipping_range": "bounds", "statistics": ("variance",)},
    "root": {"epsilon": 40, "clipping_range": "bounds", "statistics": ("sd",)},
    "targets": {"target_error": {"mean": 4, "variance": 200},
                "statistics": ("mean", "variance")},
    "interval": {"epsilon": 8, "clipping_range": "private", "statistics": ("mean", "variance")},
    "interval-variance": {"epsilon": 8, "clipping_range": "private", "statistics": ("variance",)},
    "cell-ranges": {"epsilon": 20, "clipping_range": "per-cell"},
}  # fmt: skip


def records():
    """Return readings of thirty buses in seven hexagons of two hours, on six routes."""
    places = [h3.cell_to_latlng(name) for name in h3.grid_disk(h3.latlng_to_cell(21.2, 72.8, 7), 1)]
    rows = [
        {
            "bus": f"b{bus}", "lat": lat, "lon": lon, "speed": 4.0 * at + bus % 11,
            "time": 1_700_000_000 + 3600 * hour + 60 * bus + at,
        }
        for bus in range(30)
        for at, (lat, lon) in enumerate(places)
        for hour in range(2)
        if (bus + at + hour) % 5
    ]  # fmt: skip
    for number, row in enumerate(rows):
        row["route"] = f"=route {number % 6}, {number % 2}"
    return pa.Table.from_pylist(rows)


@cache
def dataset_of(mapped):
    """Return the data set of these readings, by hexagons or by routes."""
    where = {"cells": hv.Labels("route")}
    if mapped:
        where = {"lat": "lat", "lon": "lon", "cells": hv.Cells(7, "1h", "Asia/Kolkata")}
    return hv.read(
        records(), user="bus", value="speed", time="time", bounds=(0, 60), value_unit="km/h",
        repeats="keep", **where,
    )  # fmt: skip


def released(folder, plan, *, mapped=False, smoothed=False, **options):
    """Write a release of a kind of plan into a new folder, of hexagons or of routes."""
    return release_of(folder, plan, mapped=mapped, smoothed=smoothed).write(folder, **options)


def release_of(folder, plan, *, mapped=False, smoothed=False):
    """Return a release of a kind of plan, booked in a ledger beside a folder to be made."""
    dataset = dataset_of(mapped)
    book = hv.Ledger(f"{folder}.sqlite", dataset="buses", budget=100)
    made = hv.plan(dataset, advise=False, **PLANS[plan])
    estimates = ("raw", "smoothed") if smoothed else ("raw",)
    return hv.release(dataset, made, ledger=book, estimates=estimates, accept_noise=True)


def digest_of(path):
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def seal(place):
    """Write the receipt anew, as a forger would who has no ledger."""
    (place / "receipt.json").unlink()
    whole = whole_of(place)
    content = {
        "receipt_version": 1,
        "dataset": whole["dataset"]["name"],
        "request": whole["request"],
        "ledger": whole["ledger"],
        "files": {path.name: digest_of(path) for path in sorted(place.iterdir())},
    }
    (place / "receipt.json").write_text(json.dumps(content), "utf-8")


def whole_of(place):
    """Return the manifest of a folder."""
    return json.loads((place / "manifest.json").read_text("utf-8"))


def said(place):
    """Return the statements of a folder of one value column."""
    return statements_of(whole_of(place))


def statements_of(release):
    """Return the statements of a release, or of a manifest, of one value column."""
    if not isinstance(release, hv.Release):
        release = hv.Release(pa.table({}), release, 0, replayed=True)
    (own,) = release.statements.values()
    return own


def restated(release, **sections):
    """Return a release with some sections of its statements changed."""
    return replace(release, manifest=edited(release.manifest, lambda own: own.update(sections)))


SHARED = (
    "schema_version", "software", "grid", "title", "subtitle", "catalogue", "columns_together",
    "request", "ledger",
)  # fmt: skip
"""Statements of a manifest that are not those of a value column."""


def edited(manifest, change):
    """Return a manifest of one value column with its statements changed, wherever they stand."""
    own = copy.deepcopy(statements_of(manifest))
    change(own)
    own.pop("model", None)
    shared = {key: own.pop(key) for key in SHARED if key in own}
    guarantee, dataset = own.pop("guarantee"), own.pop("dataset")
    spent = {key: guarantee[key] for key in guarantee if key.startswith("epsilon_")}
    if "l0_epsilon" in guarantee:
        spent["l0_epsilon"] = guarantee.pop("l0_epsilon")
    if "losses" in own:
        shared["losses"] = own["losses"]
    name = {"name": dataset.pop("name")}
    component = own | spent | {"dataset": dataset}
    return shared | {"guarantee": guarantee, "dataset": name, "components": [component]}


def forge_json(name, change):
    """Return a function that changes a JSON file of a folder, and nothing else."""

    def forge(place):
        content = json.loads((place / name).read_text("utf-8"))
        change(content)
        (place / name).write_text(json.dumps(content, ensure_ascii=False), "utf-8")

    return forge


def forge_manifest(place, change):
    """Change the statements of one value column and seal the folder."""
    content = json.dumps(edited(whole_of(place), change), ensure_ascii=False)
    (place / "manifest.json").write_text(content, "utf-8")
    seal(place)


def forge_whole(place, change):
    """Change the manifest of several value columns and seal the folder."""
    forge_json("manifest.json", change)(place)
    seal(place)


def problems_after(forge, folder, copy):
    """Return the problems that verification finds in a copy of a folder that was forged."""
    shutil.copytree(folder, copy)
    forge(copy)
    return problems_of(copy)


def problems_of(folder, **key):
    """Return the problems that `hexveil verify` finds in a release or an archive."""
    return tuple(verdict_of(folder, **key)["problems"])


def verdict_of(folder, *, key=None):
    """Return what `hexveil verify` says of a release or an archive; InputError if it refuses."""
    return json.loads(called("verify", folder, "--json", *(("--key", key) if key else ())))


def called(*words):
    """Return what a command prints; InputError with its words if it only refuses."""
    said, refused = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(refused):
        code = main([str(word) for word in words])
    if code and not said.getvalue():
        raise hv.InputError(" ".join(refused.getvalue().split()))
    return said.getvalue()
