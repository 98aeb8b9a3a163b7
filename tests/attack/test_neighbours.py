"""Files whose values alone differ: the same messages, exit codes, files, sizes and charges.

The values stay usable numbers in both: that they are is public by assumption.
"""

import shutil

import pyarrow as pa
import pytest

import hexveil as hv
from attack import leak_canaries as canaries
from attack import leak_neighbours as near
from attack.leak_runs import READ, READING, STORY, stand
from examples import LONG
from hexveil.publishing.manifest import request_of

pytestmark = pytest.mark.slow

SLOW = [("plan", "--compare"), ("evaluate", "--json"), ("release", "again")]
NEIGHBOUR = [
    call
    for call in STORY
    # Comparisons and roll-ups read released folders alone, and print noisy numbers.
    if call[0] not in ("simulate", "reproduce", "ledger keygen", "compare", "roll-up")
    # Its ranges, and how many numbers a stage has, are outputs that differ with the noise.
    and "plan.clipping_range=per-cell" not in call
    and (LONG or not any(name == call[0] and word in call for name, word in SLOW))
]
"""Calls that read own records; the slow ones in the long form only. Keys are there before them."""
OTHERS = {
    **{f"one is {name}": near.with_values(value) for name, value in near.EXTREME.items()},
    "all are high": near.with_values(65.0, users=canaries.N_USERS),
    "all are far below": near.with_values(-1e300, users=canaries.N_USERS),
    "all at random": near.all_at_random(7),
}
SHORT = ("one is far above",)
"""Released in the short form, as are others at random with every command; all are planned for."""


def run(folder, monkeypatch, call, key, records, calls, source="buses.parquet"):
    """Return what calls said, in a folder of records of its own."""
    folder.mkdir()
    here, _ = stand(folder, monkeypatch, records, source)
    near.put_key(here / "ledger.sqlite", key)
    for name in ("signing.pem", "signing.pem.pub"):
        shutil.copy(folder.parent / name, here)
    return here, [near.public(call(*arguments), folder) for arguments in calls]


def assert_alike(one, other):
    """Assert that two folders hold the same but for the noise."""
    assert near.names(one) == near.names(other)
    for path in sorted(one.rglob("manifest.json")):
        twin = other / path.relative_to(one)
        here, there = near.public_of_manifest(path), near.public_of_manifest(twin)
        assert here == there
        # As long as each other, too, but for the digits of estimates.
        assert near.size_without_estimates(path) == near.size_without_estimates(twin)
    for path in sorted(one.rglob("cells.parquet")):
        twin = other / path.relative_to(one)
        assert near.public_of_table(path) == near.public_of_table(twin)
    for path in one.rglob("receipt.json"):
        twin = other / path.relative_to(one)
        assert near.masked(path.read_text()) == near.masked(twin.read_text())
    for path in (*one.rglob("README.txt"), *one.rglob("*.md")):
        twin = other / path.relative_to(one)
        assert near.masked_prose(path.read_text()) == near.masked_prose(twin.read_text()), path.name
    assert near.book(one / "ledger.sqlite") == near.book(other / "ledger.sqlite")


def test_no_command_tells_neighbours_apart(tmp_path, monkeypatch, call, key):
    """All commands, one after the other: nothing but the noise, the time and a study differs."""
    one, said = run(tmp_path / "1", monkeypatch, call, key, None, NEIGHBOUR)
    other = run(tmp_path / "2", monkeypatch, call, key, near.all_at_random(3), NEIGHBOUR)
    for arguments, here, there in zip(NEIGHBOUR, said, other[1], strict=True):
        assert here == there, arguments
    assert_alike(one, other[0])


@pytest.mark.parametrize("values", OTHERS)
def test_no_value_changes_anything_public(values):
    """Facts, squares or not, plan, losses to the bit, and the request that names the release."""
    kinds = {"statistics": ("mean", "variance"), "epsilon": 1, "advise": False}
    made = []
    for records in (canaries.table(), OTHERS[values]):
        ds = hv.read(records, **READING)
        plan = hv.plan(ds, **kinds)
        made.append(
            (
                ds.has_squares, dict(ds.public.rules), dict(ds.public.identity),
                ds.occupancy.fingerprint, ds.public.cells.names(), plan.losses().tobytes(),
                plan.table.to_pylist(), request_of("buses", ds.public, plan), repr(ds),
            )
        )  # fmt: skip
    assert made[0] == made[1]


@pytest.mark.parametrize("values", OTHERS if LONG else SHORT)
def test_no_release_tells_neighbours_apart(tmp_path, monkeypatch, call, key, values):
    """Extreme values are as good as others: the same words, the same charges, the same sizes."""
    calls = [(*READ["release"], "--set", "plan.statistics=mean,sd"), ("verify", "map")]
    one, said = run(tmp_path / "1", monkeypatch, call, key, None, calls)
    other, there = run(tmp_path / "2", monkeypatch, call, key, OTHERS[values], calls)
    assert said == there
    assert_alike(one, other)


@pytest.mark.parametrize("kind", ["buses.csv", "buses.json"])
def test_no_text_of_a_number_is_told(tmp_path, monkeypatch, call, key, kind):
    """In a file of text a number may be short or long, written so or so: nothing shows it."""
    calls, values = [READ["release"]], (5.0, -1.2345678901234567e-300)
    done = [
        run(tmp_path / name, monkeypatch, call, key, near.with_values(value, 60), calls, kind)
        for name, value in zip("12", values, strict=True)
    ]
    assert done[0][1] == done[1][1]
    assert_alike(done[0][0], done[1][0])


def test_drop_values_is_the_one_exception(tmp_path, monkeypatch, call, key):
    """Dropping by value tells how many had it; every manifest says that this is assumed public."""
    calls = [(*READ["release"], "--set", "select.drop_values=0")]
    one, said = run(tmp_path / "1", monkeypatch, call, key, None, calls)
    other, there = run(tmp_path / "2", monkeypatch, call, key, near.with_values(0.0), calls)
    assert said != there
    for here in (one, other):
        stated = near.public_of_manifest(here / "map" / "manifest.json")["guarantee"]
        assert any("is public: they were dropped" in text for text in stated["assumptions"])


def test_which_place_of_repeats_counts_is_no_matter_of_values():
    """Of two records of one time at two places the same place counts, whichever value is larger."""
    rows = canaries.rows()
    facts = []
    for shift in (-3.0, 3.0):
        moved = ({**r, "speed": r["speed"] + shift, "lat": r["lat"] + 0.3} for r in rows)
        ds = hv.read(pa.Table.from_pylist([*rows, *moved]), max_repeats=1, **READING)
        facts.append((dict(ds.public.rules), ds.occupancy.fingerprint, ds.public.cells.names()))
    assert facts[0] == facts[1]
    assert facts[0][0]["repeats of a user and time"] == len(rows)
