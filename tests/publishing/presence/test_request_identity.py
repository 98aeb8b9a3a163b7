"""Identity of a request with private presence: frozen, whatever the modules are called."""

import pyarrow as pa
import pytest

import hexveil as hv

REQUESTS = {
    "averages": ({}, "064da655117ea914"),
    "averages, delta": ({"delta": "1e-6"}, "d5cb86d913a4020e"),
    "units": ({"statistics": "users"}, "02eefdd7bed8c117"),
    "medians": ({"statistics": ("p50", "share<10")}, "c1a8cd35262c5d00"),
    "medians and units": ({"statistics": ("mean", "p85", "users")}, "2dcbead16b6b8424"),
}


@pytest.fixture(scope="module")
def dataset():
    """Return one record in a declared grid of some cells."""
    record = pa.table({"car": ["7"], "speed": [30.0], "lat": [52.2], "lon": [21.0]})
    return hv.read(
        record, user="car", value="speed", bounds=(0, 100), quantum="0.1", lat="lat", lon="lon",
        cells=hv.Cells(6, None, area=(20.5, 51.9, 21.5, 52.5)), protect="presence",
        statistics=("p50", "p85", "share<10"),
    )  # fmt: skip


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_request_keeps_its_name(dataset, kind):
    """Whoever paid for a release is asked for nothing again by a version that measures alike."""
    options, name = REQUESTS[kind]
    plan = hv.plan(dataset, epsilon=2, fleet=3000, advise=False, **options)
    book = hv.Ledger("memory://", dataset="cars", budget=2, delta=options.get("delta"))
    made = hv.release(dataset, plan, ledger=book, accept_noise=True)
    assert made.manifest["request"][:16] == name
