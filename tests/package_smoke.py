"""What must work where a built hexveil is installed: run there with the names of extras.

Each function is called by name; it asserts, or tells what a missing extra is said to be. The folder
`map` of another lies there.
"""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pyarrow as pa

import hexveil as hv

COMMAND = Path(sys.executable).with_name("hexveil")
LABELS = {"user": "bus", "value": "speed", "bounds": (0, 65), "cells": hv.Labels("ward")}


def dataset():
    """Return records of forty buses in one ward."""
    rows = {"bus": [f"{k:02d}" for k in range(40)] * 5, "ward": ["x"] * 200, "speed": [20.0] * 200}
    return hv.read(pa.table(rows), **LABELS)


def released(ledger="ledger.sqlite"):
    """Return a release of them."""
    records = dataset()
    book = hv.Ledger(ledger, dataset="buses", budget=9)
    return hv.release(records, hv.plan(records, epsilon=3), ledger=book, accept_noise=True)


def told(work, extra):
    """Check that work without an extra ends with a sentence that names it."""
    text = ""
    try:
        work()
    except hv.InputError as error:
        text = str(error)
    assert f'pip install "hexveil[{extra}]"' in text, (extra, text)


def said(*arguments):
    """Return the exit code of the command, and all that it said."""
    command = [COMMAND] if COMMAND.exists() else [sys.executable, "-m", "hexveil"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def core():
    """Read, plan, release and verify, in Python and by the command."""
    assert "site-packages" in hv.__file__
    assert (Path(hv.__file__).parent / "py.typed").exists()
    assert said("--version") == (0, f"hexveil {hv.__version__}\n")
    released().write("own")
    assert said("verify", "own")[0] == 0


def reader():
    """Load, verify, compare and roll up the folder of another; publishing names its extra."""
    assert hv.load("map").to_arrow().num_rows > 1
    assert said("verify", "map")[0] == 0
    assert said("dossier", "map")[0] == 0
    assert said("roll-up", "map", "--resolution", "all", "--timeslot", "all")[0] == 0
    assert "both are the same release" in said("compare", "map", "map")[1]
    told(lambda: hv.Ledger("ledger.sqlite", dataset="buses", budget=9), "publish")
    told(lambda: hv.release, "publish")
    Path("buses.csv").write_text("bus,speed,ward\n")
    code, text = said("map", "buses.csv")
    assert (code, 'pip install "hexveil[publish]"' in text) == (2, True), text
    told(dataset, "publish")


def alone():
    """Name each extra where it is missing."""
    published = released()
    told(published.to_pandas, "pandas")
    told(hv.capacity(dataset(), epsilon=3).to_pandas, "pandas")
    told(published.to_polars, "polars")
    told(published.to_geopandas, "geo")
    told(published.plot, "plots")
    told(published.head, "pandas")
    told(lambda: published.write("signed", sign="signing.pem"), "signing")
    told(lambda: hv.Ledger("postgresql://host/name", dataset="buses", budget=9), "postgres")
    told(lambda: hv.read("records.parquet", engine="spark", **LABELS), "spark")
    told(positions, "gtfs")
    code, text = said("demo")
    assert (code, 'pip install "hexveil[demo]"' in text) == (2, True), text


FEED = bytes.fromhex(
    "0a050a03322e3012200a0131221b0a032a0178120f0d0000a84115000090422d0000f04042030a0161"
)
"""A GTFS-Realtime feed with one vehicle, "a", on the route "x", at 7.5 m/s."""


def positions():
    """Read the vehicle of the feed."""
    Path("feed.pb").write_bytes(FEED)
    return hv.read(
        "feed.pb", user="vehicle.id", value="position.speed", bounds=(0, 20),
        cells=hv.Labels("trip.route_id"), select=hv.Select(min_users=1),
        accept_single_records=True,
    )  # fmt: skip


def gtfs():
    """Read a feed of vehicle positions."""
    assert positions().sums.total.tolist() == [7500]


def demo():
    """Make the map of real flights."""
    assert said("demo")[0] == 0


def geo():
    """Make a frame of hexagons with their outlines."""
    outlines = hv.load("map").to_geopandas().geometry
    assert outlines.is_valid.all()
    assert {len(one.exterior.coords) for one in outlines} == {7}


def plots():
    """Draw a release."""
    assert hv.load("map").plot().get_title()


def pandas():
    """Make data frames of a release and of a table of grids."""
    assert len(hv.load("map").to_pandas()["users"]) > 1
    assert len(hv.capacity(dataset(), epsilon=3).to_pandas()) == 1


def polars():
    """Make a data frame of a release, and read one."""
    import polars as pl  # noqa: PLC0415  an extra

    assert len(hv.load("map").to_polars()["users"]) > 1
    frame = pl.DataFrame({"bus": ["a"] * 20, "ward": ["x"] * 20, "speed": [1.0] * 20})
    read = hv.read(frame, **LABELS, select=hv.Select(min_users=1))
    assert read.public.occupancy.n_users == 1


def postgres():
    """Find the driver: what is missing is a server."""
    text = ""
    try:
        hv.Ledger("postgresql://127.0.0.1:1/none", dataset="buses", budget=9)
    except hv.StorageError as error:
        text = str(error)
    assert "cannot be used" in text, text


def spark():
    """Find the engine: what is missing is Java."""
    os.environ |= {"JAVA_HOME": "/nowhere", "PATH": ""}
    text = ""
    try:
        hv.read("records.parquet", engine="spark", **LABELS)
    except hv.InputError as error:
        text = str(error)
    assert "needs Java" in text, text


LOADED = {
    "portal": ("frictionless", "pyshacl", "pystac.validation", "rdflib"),
    "docs": ("latex2mathml.converter", "mkdocstrings_handlers.python", "zensical"),
}
"""What extras are for whose work is tested elsewhere."""


def signing():
    """Make a key pair, sign with it, and check."""
    assert said("ledger", "keygen", "signing.pem")[0] == 0
    folder = released().write("signed", sign="signing.pem")
    assert hv.verify(folder, key="signing.pem.pub")["guarantee"]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        if name not in LOADED:
            globals()[name]()
        for module in LOADED.get(name, ()):
            import_module(module)
