"""What is not protected, shown: docs/understand/weaknesses.md names these."""

import hashlib
import sqlite3
from contextlib import closing
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hexveil as hv


def sums(values, count=4, ids=None):
    """Return sums of buses that report `count` times each in one cell."""
    names = [f"bus {k}" for k in range(len(values))] if ids is None else ids
    columns = {
        "cell": ["line/1"] * len(values),
        "user": names,
        "n": [count] * len(values),
        "sum": [count * value for value in values],
    }
    return hv.from_sums(pa.table(columns), bounds=(0, 60), min_users=1)


def released(dataset, book, epsilon=1):
    """Return a release and its plan."""
    plan = hv.plan(dataset, epsilon=epsilon, method="per-cell", advise=False)
    return hv.release(dataset, plan, ledger=book, accept_noise=True), plan


@pytest.fixture
def book(tmp_path):
    """Return a ledger."""
    return hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=100)


@pytest.mark.parametrize(("buses", "count"), [(20, 4), (21, 4), (20, 5)])
def test_presence_and_counts_are_published_as_they_are(book, buses, count):
    """One vehicle more, or one record more, shows in the table without any noise."""
    made, _ = released(sums([30.0] * buses, count), book)
    assert made.table["users"].to_pylist() == [buses]
    assert made.table["records"].to_pylist() == [buses * count]


def test_a_value_that_follows_from_places_is_not_protected(book):
    """Where the value is the number of records itself, the table shows it to the last digit."""
    made, plan = released(sums([float(7)] * 20, 7), book, "0.000001")
    (records,), (users,) = made.table["records"].to_pylist(), made.table["users"].to_pylist()
    assert (
        plan.primary_statistic.scale[0] > 1_000 * 60 or plan.contribution_cap[0] == 0
    )  # the mean itself says nothing
    assert records / users == 7


def test_what_all_have_in_common_is_published(book):
    """A reading that all vehicles share comes out, also for somebody who knows who took part."""
    made, plan = released(sums([50.0] * 5_000), book)
    (shown,), (bound,) = made.table["mean_raw"].to_pylist(), plan.primary_statistic.bound95.tolist()
    assert plan.losses().max() <= 1
    assert bound < 1
    assert abs(shown - 50) < 10 * bound


def test_several_ids_of_one_vehicle_lose_the_sum(book):
    """Under k ids a vehicle is k units: each is within the loss, and together they lose k times."""
    ids = ["KA 01", "ka 01", "KA-01", *(f"bus {k}" for k in range(17))]
    dataset = sums([30.0] * 20, ids=ids)
    _, plan = released(dataset, book)
    losses = dict(zip(dataset.units.ids(), plan.losses().tolist(), strict=True))
    one, *others = (losses[name.encode()] for name in ids[:3])
    assert 0 < one <= 1
    assert one + sum(others) == pytest.approx(3 * one)
    assert book.spend().units == 20


def test_two_ledgers_do_not_know_of_each_other(tmp_path):
    """Each holds its budget; what a vehicle loses is the sum, and neither says so."""
    dataset = sums(np.linspace(10.0, 50.0, 20))
    books = [
        hv.Ledger(tmp_path / f"{k}.sqlite", dataset="buses", budget=1, key=tmp_path / "holder.key")
        for k in range(2)
    ]
    answers = [released(dataset, book)[0] for book in books]
    assert [book.remaining < Fraction(1, 10**6) for book in books] == [True, True]
    assert sum(book.spent for book in books) > Fraction(199, 100)
    assert answers[0].table["mean_noisy"] != answers[1].table["mean_noisy"]


def test_book_and_key_together_tell_who_is_in_it(book, tmp_path):
    """Whoever has the key can try an id; under another key nothing matches."""
    released(sums([30.0] * 20), book)
    key = bytes.fromhex((tmp_path / "ledger.sqlite.key").read_text())

    def spent(name, key):
        unit = hashlib.blake2b(name + b"\x1f", key=key, digest_size=16, person=b"unit").digest()
        with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as ledger:
            asked = "SELECT spent FROM hexveil_balances WHERE unit = ? AND window = ''"
            return ledger.execute(asked, [unit]).fetchall()

    assert spent(b"bus 7", key) > [(0,)]
    assert spent(b"bus 99", key) == []
    assert spent(b"bus 7", key[::-1]) == []


def test_the_configured_source_is_published(book, tmp_path):
    """The manifest names the source as it was configured, whatever that name says."""
    file = tmp_path / "line 7 of Mr Smith.parquet"
    pq.write_table(pa.table({"bus": ["a", "b"], "v": [1.0, 2.0], "line": ["7", "7"]}), file)
    dataset = hv.read(
        str(file), user="bus", value="v", bounds=(0, 60), cells=hv.Labels("line"),
        select=hv.Select(min_users=1),
    )  # fmt: skip
    made, _ = released(dataset, book)
    assert "Mr Smith" in str(made.manifest["components"][0]["dataset"]["sources"])
