"""A tiny archive of days: its records and run file, what `hv.publish` makes, what stands there."""

import contextlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

import hexveil as hv
from bus_runs import run_text

DAYS = ("2024-01-30", "2024-01-31", "2024-02-01")
NOT_YET = "2999-01-01"
PLACES = ((21.10, 72.75), (21.20, 72.80), (21.25, 72.85))
HOLDER = {"publisher": "City <of> Surat", "license": "CC-BY-4.0", "keywords": ["buses"]}


def site(home, dataset="buses", *, holder=HOLDER, days=DAYS, plan=""):
    """Write records of forty buses, and their run file; return the file."""
    rows = [
        {
            "bus": f"{bus:02}", "lat": lat, "lon": lon, "speed": 10.0 * place + bus % 10,
            "time": f"{day}T{10 + place}:{bus:02}:00+05:30",
        }
        for day in days
        for place, (lat, lon) in enumerate(PLACES)
        for bus in range(40)
    ]  # fmt: skip
    home.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), home / "buses.parquet")
    facts = "\n".join(f"{name} = {json.dumps(fact)}" for name, fact in holder.items())
    release = f'out = "maps"\naccept_noise = true\n[catalogue]\n{facts}'
    text = run_text(cells='timezone = "Asia/Kolkata"', plan=plan, budget=100, release=release)
    name = f"dataset = {json.dumps(dataset)}"
    (home / "run.toml").write_text(text.replace('dataset = "buses"', name), "utf-8")
    return home / "run.toml"


def publish(run, *days, out=None, **options):
    """Publish days one by one, where the run file is; return the outcome of the last."""
    with contextlib.chdir(run.parent):
        for day in days:
            (outcome,) = hv.publish(run, day, out=out, **options)
    return outcome


def published(run, *days, out=None, **options):
    """Publish days; return the folder of the last one, below its archive."""
    for day in days:
        outcome = publish(run, day, out=out, **options)
        assert outcome.state == "published", outcome.message
    return current(run.parent / "maps" if out is None else out, days[-1])


def relist(run, out):
    """Write the catalogue of an archive anew: a day that is not over does no more than that."""
    assert publish(run, NOT_YET, out=out).state == "not ready"


def current(root, day=None, dataset="buses"):
    """Return the folder of the current release of a day, or of the newest one."""
    place = root / dataset
    return place / content((place if day is None else place / day) / "latest.json")["path"]


class _OfAll(type):
    """The kind of every file system, as `isinstance` sees it."""

    def __instancecheck__(cls, one, real=pa.fs.FileSystem):
        return isinstance(one, real)


class Stores(metaclass=_OfAll):
    """File systems by their address; store:// is one whose files are uploaded, never renamed.

    To be put in place of `pyarrow.fs.FileSystem`.
    """

    @staticmethod
    def from_uri(address, real=pa.fs.FileSystem.from_uri):
        """Return the file system of an address, and the path there."""
        if not address.startswith("store://"):
            return real(address)
        folder = Path(address.removeprefix("store://"))
        return pa.fs.SubTreeFileSystem(str(folder.parent), pa.fs.LocalFileSystem()), folder.name


def content(path):
    """Return the JSON of a file."""
    return json.loads(path.read_text("utf-8"))
