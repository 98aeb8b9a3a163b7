"""Every kind of release at the door to the noise: what one unit moves there, and its charge.

A release of each kind runs as it is, once for each of two data sets that differ in one unit. A
recorder stands in place of the noise: it notes the numbers and scales that it is handed, and gives
both releases the same outcomes. The unit's loss follows from these numbers alone, without a formula
of the package: Σ |v - v'| / R of Laplace noise, the law of permute-and-flip for a choice, squares
of Gaussian noise. So an accountant that booking and meter share is not its own guard. What is
published then must be the same: else something has gone past the noise.
"""

import contextlib
import sys
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv
from attack import exact_law, folder_kinds
from attack import leak_neighbours as near
from hexveil.accounting.gaussian_composition import square_epsilon, square_of_pure
from hexveil.ledger.unit_losses import make_key
from hexveil.mechanisms.noise import VettedNoise
from hexveil.mechanisms.sensitivity_report import Meter
from hexveil.records.dataset import Sums
from publishing import releases

UNIT, TOP = "b0", {"speed": 60.0, "load": 50.0}
QUICK = ("delta", "means", "presence-labels")
KINDS = sorted({*folder_kinds.KINDS, *releases.PLANS})
EACH = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in KINDS]
)
RECORDS = releases.records
SECOND_LOOKS = {"cell-ranges": (2,), "columns": (2, 5)}
"""Calls that spend what a first look at the same cells was charged and left over."""
LEAST = 0.75
"""Part of its charge that the unit loses at least."""
ALL = 1 - 1e-5
"""Part of its charge that the meter adds up for some unit: what is booked is not more than that."""
SOURCE = Path(hv.__file__).resolve().parent
PRIVATE = ("total", "total_sq", "map_cells")
"""What of the sums of records tells of values."""
MEASURES = ("mechanisms/", "publishing/pipeline.py")
"""Where sums are handed to stages, and made integers of, with a proof of their sensitivity."""


@dataclass
class Recorder:
    """A source of noise that adds none, or gives the outcomes of another one."""

    outcomes: list = field(default_factory=list)
    calls: list = field(default_factory=list)
    metered: float = 0.0

    def laplace(self, values, scales):
        """Note a call, and return the outcome."""
        return self._answer("laplace", values, scales, values)

    def gaussian(self, values, deviations):
        """Note a call, and return the outcome."""
        return self._answer("gaussian", values, deviations, values)

    def noisy_max(self, scores, sizes, scale):
        """Note a call, and return the candidate."""
        rows = zip(*np.broadcast_arrays(scores, sizes), strict=True)
        full = np.array([np.repeat(score, size) for score, size in rows])
        return self._answer("choice", full, scale, full.argmax(axis=1))

    def _answer(self, kind, values, scales, own):
        self.calls.append((kind, values.copy(), np.array(scales, dtype=np.float64)))
        if len(self.outcomes) < len(self.calls):
            self.outcomes.append(own.copy())
        return self.outcomes[len(self.calls) - 1].copy()


@contextlib.contextmanager
def _recorded(recorder):
    """Put a recorder in place of the noise library; give what else to patch."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("laplace", "gaussian", "noisy_max"):
            answer = getattr(recorder, name)
            patch.setattr(VettedNoise, name, lambda _, *given, answer=answer: answer(*given))

        def authorise(meter, *given, real=Meter.authorise):
            real(meter, *given)
            recorder.metered = float((meter._spent / meter._booked).max())

        patch.setattr(Meter, "authorise", authorise)
        yield patch


def _readings(columns, value):
    """Return readings of all at the lower bounds, and of one unit at a value; None: it has none."""
    table = RECORDS()
    mine = np.array([bus == UNIT for bus in table["bus"].to_pylist()])
    table = table.drop_columns("speed")
    for column in columns:
        table = table.append_column(column, pa.array(np.where(mine, value and TOP[column], 0.0)))
    return table if value is not None else table.filter(pa.array(~mine))


def _folder(home, kind, value, recorder):
    """Write a release in which the unit's readings are at a bound, or none.

    Return who touched sums before it, in it and after it: modules of the package.
    """
    seen, phases = set(), []

    def released(*given, real=hv.release, **named):
        phases.append(seen.copy())
        seen.clear()
        made = real(*given, **named)
        phases.append(seen.copy())
        seen.clear()
        return made

    releases.dataset_of.cache_clear()
    with _recorded(recorder) as patch:
        for module in (folder_kinds, releases):
            patch.setattr(module, "records", lambda: _readings(["speed"], value))
        patch.setattr(folder_kinds, "_table", lambda: _readings(list(TOP), value))
        patch.setattr(hv, "release", released)
        patch.setattr(Sums, "__getattribute__", _watched(seen))
        folder_kinds.make(home, kind)
    releases.dataset_of.cache_clear()
    return [*phases, seen]


def _watched(seen):
    """Return how attributes of the sums of records are read, noting by which module."""
    plain = Sums.__getattribute__

    def read(self, name):
        # Whether there are squares is public; `Sums.squares` says it.
        if name in PRIVATE and sys._getframe(1).f_code.co_name != "squares":
            frames = [sys._getframe(1)]
            while frames[-1].f_back is not None:
                frames.append(frames[-1].f_back)
            paths = (Path(frame.f_code.co_filename) for frame in frames)
            own = (path.relative_to(SOURCE) for path in paths if path.is_relative_to(SOURCE))
            own = (path.as_posix() for path in own)
            seen.add(next((path for path in own if path != "records/dataset.py"), "outside"))
        return plain(self, name)

    return read


def _published(home, kind):
    """Return all that a release left behind but for hashes: tables, texts, and the ledger."""
    folder, book = home / kind, home / f"{kind}.sqlite"
    tables = [pq.read_table(path).to_pylist() for path in sorted(folder.rglob("*.parquet"))]
    texts = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return (
        tables,
        {p.name: near.masked(p.read_text()) for p in texts if p.suffix != ".parquet"},
        near.book(book),
        near.results(book),
    )


def _lost(noise, one, other, scales, delta):
    """Return what a call tells of two data sets: its largest log-ratio, or a square of mu."""
    if noise == "gaussian":
        return float((((one - other) / scales) ** 2).sum())
    if noise == "laplace":
        pure = float((np.abs(one - other) / scales).sum())
    else:
        laws = [
            [exact_law.choice(tuple(row.tolist()), float(scales)) for row in scores]
            for scores in (one, other)
        ]
        pure = float(np.abs(np.subtract(*laws)).max(axis=1).sum())
    return square_of_pure(pure) if delta else pure


@cache
def trial(kind):
    """Release a kind for both data sets; return all that tests ask about.

    `part` is what the unit loses along the path, and `metered` what the meter adds up, in parts of
    what is charged; `published` is what each left behind, `touched` who touched the sums.
    """
    values = (None, 1) if kind.startswith("presence") else (0, 1)
    first = Recorder()
    second = Recorder(first.outcomes)
    with TemporaryDirectory() as name:
        make_key(Path(name) / "one.key")
        homes = [Path(name) / side for side in ("one", "other")]
        for home, value, recorder in zip(homes, values, (first, second), strict=True):
            home.mkdir()
            near.put_key(home / f"{kind}.sqlite", (Path(name) / "one.key").read_bytes())
            touched = _folder(home, kind, value, recorder)
        account = folder_kinds.ACCOUNTS.get(kind, folder_kinds.ACCOUNT)
        one, other = (hv.Ledger(home / f"{kind}.sqlite", **account) for home in homes)
        assert one.spent == other.spent
        spent, delta = float(one.spent), Fraction(one.account.delta or 0)
        published = [_published(home, kind) for home in homes]
    calls, told = list(zip(first.calls, second.calls, strict=True)), 0.0
    for number, ((noise, own, scales), (same, its, again)) in enumerate(calls):
        assert noise == same, "the noise asked for depends on values"
        assert np.array_equal(scales, again), "a scale depends on values"
        if number not in SECOND_LOOKS.get(kind, ()):
            told += _lost(noise, own, its, scales, delta)
    lost = square_epsilon(Fraction(told), delta) if delta else told
    return SimpleNamespace(
        part=lost / spent, metered=first.metered, published=published, touched=touched
    )


@EACH
def test_a_unit_loses_what_it_is_charged_and_no_more(kind):
    """Of every kind of release, by the whole numbers and scales at the door alone."""
    found = trial(kind)
    assert found.part <= 1 + exact_law.EXACT, f"a unit loses {found.part} times its charge"
    assert found.part >= LEAST
    assert found.metered >= ALL


@EACH
def test_nothing_passes_the_door_but_noise(kind):
    """At equal outcomes all that is released is the same: table, texts, ledger, result by result.

    Nobody touches the sums of records but who made them, and what hands them to stages.
    """
    found = trial(kind)
    for one, other in zip(*found.published, strict=True):
        assert one == other
    before, within, after = found.touched
    assert [name for name in before if not name.startswith("records/")] == []
    assert [name for name in within if not name.startswith(MEASURES)] == []
    assert within or kind.startswith("presence")
    assert not after


def test_what_goes_past_the_door_is_seen(monkeypatch):
    """With outcomes of its own each release is another, so that finding nothing means something."""
    monkeypatch.setattr(Recorder, "_answer", lambda *given: given[-1].copy())
    published = trial.__wrapped__("means").published
    assert published[0][0] != published[1][0]
