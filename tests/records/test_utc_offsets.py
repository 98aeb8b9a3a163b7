"""Clock changes of time zones, against zoneinfo itself."""

import datetime as dt
import random
import zoneinfo

import pyarrow as pa
import pytest

from hexveil import Cells, Select, read

ZONES = ["Europe/Warsaw", "Asia/Kolkata", "America/St_Johns", "Africa/Casablanca", "UTC",
         "America/Boa_Vista"]  # fmt: skip
CHANGES = [1_711_846_800, 1_729_990_800, 970_977_600, 971_578_800]
"""Changes of the clock: of Warsaw in 2024, and those of Boa Vista that are a week apart."""


def seconds():
    """Return seconds since 1970, on either clock, around changes and anywhere."""
    draw = random.Random(5)  # noqa: S311  test data
    near = [at + 900 * k + draw.randrange(900) for at in CHANGES for k in range(-40, 40)]
    return near + [draw.randrange(4_102_444_800) for _ in range(500)] + [0, 4_102_444_799]


def slots(times, clock, naive):
    """Return the slot of each time, as the second of its clock at which it begins."""
    users = [f"{i:04d}" for i in range(len(times))]
    columns = {"u": users, "v": [1.0] * len(times), "t": times}
    places = {name: [0.0] * len(times) for name in ("lat", "lon")}
    found = read(
        pa.table(columns | places), user="u", value="v", time="t", lat="lat", lon="lon",
        bounds=(0, 9), cells=Cells(0, "15min", clock), timezone=naive,
        select=Select(min_users=1), accept_single_records=True,
    )  # fmt: skip
    occupancy = found.occupancy
    return found.public.cells.slot[occupancy.cell][occupancy.user.argsort()].tolist()


@pytest.mark.parametrize("name", ZONES)
def test_offsets_are_the_time_zone_s(name):
    """At every instant the offset is the one zoneinfo gives."""
    zone, instants = zoneinfo.ZoneInfo(name), seconds()
    offsets = [dt.datetime.fromtimestamp(at, zone).utcoffset().total_seconds() for at in instants]
    expected = [(at + offset) // 900 * 900 for at, offset in zip(instants, offsets, strict=True)]
    assert slots(instants, name, None) == expected


@pytest.mark.parametrize("name", ZONES)
def test_wall_offsets_mean_the_first_of_two(name):
    """At every wall-clock reading, also a skipped or repeated one, as fold=0 says."""
    zone, epoch = zoneinfo.ZoneInfo(name), dt.datetime(1970, 1, 1)  # noqa: DTZ001  a wall clock
    readings = [second for second in seconds() if 86_400 < second < 4_102_358_400]
    walls = [epoch + dt.timedelta(seconds=second) for second in readings]
    instants = [int(wall.replace(tzinfo=zone).timestamp()) for wall in walls]
    found = slots(pa.array(walls, pa.timestamp("us")), "UTC", name)
    assert found == [at // 900 * 900 for at in instants]
