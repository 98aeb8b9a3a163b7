"""Every kind of release: saved, and stopped after each of its stages.

That it is booked once, replayed, verified and explained: tests/test_golden_releases.py; what a unit
loses by it: tests/attack/test_kinds_at_the_door.py; forged folders and bookings: tests/attack.
"""

import numpy as np
import pytest

import golden_releases
import hexveil as hv
from attack import folder_kinds
from publishing import noise_library

QUICK = ("delta", "presence-labels")
KINDS = [
    pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow)
    for kind in golden_releases.kinds()
]
EACH = pytest.mark.parametrize("kind", KINDS)


class AskedError(Exception):
    """What a release was asked for."""


def asked(home, kind):
    """Return how a release of a kind is made in an account of its own, and how the request is."""

    def noted(dataset, plan, **options):
        raise AskedError(dataset, plan, options)

    home.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hv, "release", noted)
        with pytest.raises(AskedError) as found:
            folder_kinds.release(home, kind)
    dataset, plan, options = found.value.args
    return lambda of=plan: hv.release(dataset, of, **options), dataset, plan, options["ledger"]


@EACH
def test_a_release_that_stops_after_any_stage_goes_on_from_what_is_stored(
    kind, tmp_path, monkeypatch
):
    """Killed after each stage was stored: paid once, drawn once, the same in the end."""
    drawn, again = [], []
    with noise_library.seeded(5, drawn):
        release, _, _, book = asked(tmp_path / "whole", kind)
        whole, stages = release(), len(book.entries()[0].stages)
    with noise_library.seeded(5, again):
        release, _, _, book = asked(tmp_path / "stopped", kind)
        stored, spent = [{}], []

        def stopping(ledger, *given, store=hv.Ledger.store):
            store(ledger, *given)
            raise KeyboardInterrupt

        with monkeypatch.context() as stopped:
            stopped.setattr(hv.Ledger, "store", stopping)
            for _ in range(stages):
                with pytest.raises(KeyboardInterrupt):
                    release()
                (entry,) = book.entries()
                assert (entry.state, len(entry.stages)) == ("measured", len(stored))
                assert entry.stages.items() >= stored[-1].items()
                stored.append(dict(entry.stages))
                spent.append(book.spent)
            made = release()
    assert not made.replayed
    assert dict(book.entries()[0].stages) == stored[-1]
    assert drawn == again
    assert {*spent} == {book.spent}
    assert made.table.equals(whole.table)
    assert release().replayed


@pytest.mark.parametrize("kind", [one for one in KINDS if "presence" not in one.values[0]])
def test_a_saved_plan_is_the_same_request(kind, tmp_path):
    """It is loaded with its records, has its losses to the bit, and is shown what was released."""
    release, dataset, plan, _ = asked(tmp_path, kind)
    made, loaded = release(), hv.Plan.load(plan.save(tmp_path / "saved"), dataset)
    assert np.array_equal(loaded.losses(), plan.losses())
    assert loaded.to_json() == plan.to_json()
    again = release(loaded)
    assert again.replayed
    assert again.table.equals(made.table)
