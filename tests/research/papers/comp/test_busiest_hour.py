"""Figures 1 and 2 on an hour of records: tiny tables, the simulated city, real records."""

import numpy as np
import pyarrow as pa
import pytest

import hexveil as hv
from hexveil_research.papers.comp import busiest_hour
from hexveil_research.papers.comp.busiest_hour import Slot
from hexveil_research.papers.comp_setting import comp_setting
from hexveil_research.papers.study import Setting
from hexveil_research.papers.study_data import StudyData, one_cell

SLOT = Slot("drawn", 65.0, comp_setting(3, 0, cells=6))


def drawn(_):
    return (SLOT,)


@pytest.mark.slow
def test_an_hour_is_cut_out_of_a_table():
    """Records of other hours and days, and all but the busiest cells, are left out."""
    times = [f"2024-02-19T15:{minute:02}:00" for minute in range(6)]
    rows = [("a", 52.2, t) for t in times] + [("b", 52.2, times[0])]
    rows += [("a", 52.2, "2024-02-19T18:00:00"), ("c", 52.2, "2024-02-20T15:00:00")]
    rows += [("c", 51.9, times[0])]
    users, lats, moments = zip(*rows, strict=True)
    table = pa.table(
        {
            "user_id": users,
            "lat": lats,
            "lon": [21.0] * len(rows),
            "timestamp": [f"{moment}Z" for moment in moments],
            "value": [10.0] * len(rows),
        }
    )
    columns = {"user": "user_id", "value": "value", "time": "timestamp", "lat": "lat", "lon": "lon"}
    # 16 o'clock there is 15 in UTC.
    hour = busiest_hour.Hour("Warsaw", 90.0, "Europe/Warsaw", "2024-02-19", 16, columns)
    occupancy = busiest_hour.dataset_of(table, hour).public.occupancy.local()
    assert Slot("Warsaw", 90.0, occupancy).facts() == "2 cells, 3 users, at most 1 a user"
    assert sorted(occupancy.n.tolist()) == [1, 1, 6]


def test_the_papers_records_are_not_called_reproduced():
    """Its hour is not published: the claim says what stands in its place, without a verdict."""
    claim = busiest_hour.resemblance(drawn(None))
    assert claim.verdict == "not tried"
    assert "drawn: 6 cells, 63 users, at most 6 a user" in claim.measured


def test_claims_of_the_slots_can_hold_and_fail():
    """With a heavy hitter in each cell caps help a lot; where nothing changes they do not."""
    runs = busiest_hour.runs_of(SLOT)
    assert busiest_hour.most_epsilons(SLOT, runs).holds
    assert not busiest_hour.little(SLOT, runs).holds
    flat = ((busiest_hour.Run(1.0, 3, 3, 5.0, 5.0, 0, 5.0, 5.0, 1.0, 1.0),),)
    assert not busiest_hour.most_epsilons(SLOT, flat).holds
    assert busiest_hour.little(SLOT, flat).holds


def test_few_samples_are_looked_for_in_the_cell_of_largest_error():
    """One record each of two users beside cells of a hundred: very few; the heaviest: not."""
    crowd = np.full((20, 3), 100)
    crowd[:, 0] = [1, 1, *[0] * 18]
    assert busiest_hour.few_samples(Slot("", 65.0, hv.Occupancy.from_dense(crowd))).holds
    assert not busiest_hour.few_samples(SLOT).holds
    # Two cells of one user tie for the largest error: the one of few samples decides nothing.
    crowd[:, 1] = [400, *[0] * 19]
    crowd[:, 0] = [2, *[0] * 19]
    tied = busiest_hour.few_samples(Slot("", 65.0, hv.Occupancy.from_dense(crowd)))
    assert not tied.holds
    assert "of 2 such cells" in tied.measured


def test_claims_are_about_an_hour_of_records_or_the_papers_setting():
    """Counts of one cell are drawn from, and other numbers than the paper's are other claims."""
    hour, cell = StudyData("hour", SLOT.occupancy), StudyData("cell", one_cell(np.array([3, 1])))
    settings = (Setting(), Setting(data=hour), Setting(data=cell), Setting(data=hour, gamma=2))
    assert [busiest_hour.has_verdicts(each) for each in settings] == [True, True, False, False]
    assert busiest_hour.has_verdicts(Setting(trials=9, seed=2))
    assert [slot.name for slot in busiest_hour.slots(Setting(data=hour))] == ["hour"]
