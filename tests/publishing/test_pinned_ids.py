"""The id space that an account pins: the same vehicles under other ids would look unspent."""

import pyarrow as pa
import pytest

import hexveil as hv

MODELS = ("values", "presence")


def read(model, user="bus", **more):
    """Return records of 40 buses on four trips each."""
    bus = [f"b{k // 4}" for k in range(160)]
    rows = {
        "bus": bus,
        "trip": [f"t{k}" for k in range(160)],
        "vehicle": bus,
        "v": [float(k % 60) for k in range(160)],
        "ward": ["x"] * 160,
    }
    declared = {"values": ["x"]} if model == "presence" else {}
    accepted = {} if model == "presence" else {"accept_single_records": True}
    return hv.read(
        pa.table(rows), user=user, value="v", bounds=(0, 60), protect=model,
        cells=hv.Labels("ward", **declared), **accepted, **more,
    )  # fmt: skip


def release(book, model, dataset=None, **more):
    """Release records; those of buses, read anew, unless others are named."""
    dataset = dataset or read(model, **more)
    fleet = {"fleet": 400} if model == "presence" else {}
    plan = hv.plan(dataset, epsilon="0.9", **fleet)
    return hv.release(dataset, plan, ledger=book, accept_noise=True)


def ledger(tmp_path):
    """Return the ledger of a test."""
    return hv.Ledger(tmp_path / "ledger.sqlite", dataset="buses", budget=3)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_other_ids_are_refused_with_a_way_out(model, tmp_path):
    """A vehicle of four trips would lose four times the budget; nothing is booked for them."""
    book = ledger(tmp_path)
    release(book, model)
    assert book.account.id_space == "bus"
    with pytest.raises(
        hv.InputError, match=r"'bus', this one ids of 'trip'.* --set read.id_space"
    ) as caught:
        release(book, model, read(model, "trip"))
    assert "id_space = 'bus'" in str(caught.value)
    assert len(book.entries()) == 1
    assert not book.verify().problems


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_another_column_of_the_same_ids_is_declared(model, tmp_path):
    """The declared name is what the account pins, and it changes no request."""
    book = ledger(tmp_path)
    release(book, model, id_space="vehicle")
    assert release(book, model, id_space="vehicle").replayed
    assert not release(book, model, user="vehicle").replayed
    assert book.account.id_space == "vehicle"


@pytest.mark.slow
def test_sums_made_elsewhere_name_their_ids(tmp_path):
    """They are of "user" unless the records' column is named."""
    rows = {"cell": ["x"] * 20, "user": [f"b{k}" for k in range(20)], "n": [2] * 20,
            "sum": [9.0] * 20}  # fmt: skip
    book = ledger(tmp_path)
    release(book, "values")
    for more, refused in (({}, True), ({"id_space": "bus"}, False)):
        sums = hv.from_sums(pa.table(rows), bounds=(0, 60), **more)
        plan = hv.plan(sums, epsilon="0.9", advise=False)
        if refused:
            with pytest.raises(hv.InputError, match="ids of 'user'"):
                hv.release(sums, plan, ledger=book, accept_noise=True)
        else:
            assert hv.release(sums, plan, ledger=book, accept_noise=True).epsilon
