"""Private presence: nothing but noise depends on the records.

Noise that ignores the records stands in for the door where outputs are compared: then two sets of
records must leave the same bytes everywhere.
"""

import contextlib
import itertools
import json

import numpy as np
import pytest

import hexveil as hv
from cli.presence_runs import CACHED, CANARY, ROW, RUN, SEVERAL, records, with_load
from hexveil.cli import planned_release
from hexveil.publishing import pipeline

pytestmark = pytest.mark.slow


class DeafNoise:
    """Noise that ignores the records: equal for any, so that whatever differs is a leak."""

    def laplace(self, values, scales):  # noqa: ARG002  see NoiseSource
        """Return numbers by position alone."""
        return np.broadcast_to((1 + np.arange(values.shape[-1])) * 2**21, values.shape).copy()

    def noisy_max(self, scores, sizes, scale):  # noqa: ARG002  see NoiseSource
        """Return the middle candidate."""
        return np.full(len(scores), 5, dtype=np.int64)


NEIGHBOURS = {
    "one user more": records() + ROW,
    "one user less": records(299),
    "nobody": "car,road,speed\n",
    "a malformed row": records() + f'{CANARY},"A4\n',
    "an unusable value": records() + f"{CANARY},A4,none\n",
    "all unusable": "car,road,speed\n" + f"{CANARY},A4,none\n" * 50,
    "elsewhere": records() + f"{CANARY},C3,50\n",
    "a record each": "car,road,speed\n" + "".join(f"u{i},A4,1\n" for i in range(200)),
    "a heavy user": records() + ROW * 3000,
}


def left_behind(folder, call, text, *options):
    """Return what a release of these records leaves behind: output, files, facts of the ledger."""
    folder.mkdir()
    (folder / "cars.csv").write_text(with_load(text) if SEVERAL in options else text)
    (folder / "run.toml").write_text(RUN)
    with contextlib.chdir(folder):  # where a cache of a relative name is
        said = call("release", folder / "run.toml", *" ".join(options).split())
    written = sorted(path for path in (folder / "map").rglob("*") if path.is_file())
    files = {
        path.relative_to(folder): path.read_bytes()
        for path in written
        # They name the ledger's hash, which holds the time.
        if path.name not in ("manifest.json", "receipt.json")
    }
    manifests = [json.loads(path.read_text()) for path in written if path.name == "manifest.json"]
    for manifest in manifests:
        manifest["ledger"] = manifest["ledger"]["entry"]
    ledger = hv.Ledger(folder / "ledger.sqlite", dataset="cars")
    booked = [(one.request, dict(one.facts)) for one in ledger.entries()], ledger.spend()
    output = (said.code, said.err, said.out.replace(str(folder), "."))
    # A cache is as private as the records.
    names = sorted(path.name for path in folder.rglob("*") if "kept" not in path.parts)
    return output, files, manifests, booked, names


SHAPES = "--set plan.statistics=p50,share<30"


@pytest.mark.parametrize(
    ("changed", "options"),
    [
        *((name, ()) for name in NEIGHBOURS),
        *itertools.product(("one user more", "nobody"), ((SHAPES,), (SEVERAL,))),
        ("nobody", (SEVERAL, CACHED)),
    ],
)
def test_nothing_but_noise_depends_on_the_records(changed, options, tmp_path, call, monkeypatch):
    """With noise that ignores records, neighbours leave the same bytes, messages and exit code."""
    monkeypatch.setattr(pipeline, "VettedNoise", DeafNoise)
    base = left_behind(tmp_path / "base", call, records(), *options)
    other = left_behind(tmp_path / "othr", call, NEIGHBOURS[changed], *options)
    assert base[0][0] == 0, base[0]
    for one, another in zip(base, other, strict=True):
        assert one == another


def test_broken_twins_are_found(tmp_path, call, monkeypatch):
    """The comparison sees a plan whose fleet is counted, and a folder without its missing cells."""
    monkeypatch.setattr(pipeline, "VettedNoise", DeafNoise)
    true_release = planned_release.publish_numbers

    def without_empty_cells(dataset, plan, **options):
        made = true_release(dataset, plan, **options)
        used = np.isin(np.arange(made.table.num_rows), dataset.pairs.cell)
        return hv.Release(made.table.filter(used), made.manifest, made.epsilon, made.replayed)

    def with_counted_fleet(dataset, plan, **options):
        counted = hv.plan(plan.facts, epsilon=2, fleet=max(dataset.pairs.begin.size, 300) + 1)
        return true_release(dataset, counted, **options)

    for number, twin in enumerate((without_empty_cells, with_counted_fleet)):
        monkeypatch.setattr(planned_release, "publish_numbers", twin)
        one_road = records().replace("A8", "A4").replace("B10", "A4")
        sets = (one_road, one_road + f"{CANARY},A8,50\n")
        base, other = (
            left_behind(tmp_path / f"{'ab'[k]}{number}", call, text) for k, text in enumerate(sets)
        )
        assert base[1:] != other[1:]
