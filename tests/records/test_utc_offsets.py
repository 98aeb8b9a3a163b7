"""Clock changes of time zones, against zoneinfo itself."""

import datetime as dt
import random
import zoneinfo

import pyarrow as pa
import pytest

import hexveil as hv

ZONES = ["Europe/Warsaw", "Asia/Kolkata", "America/St_Johns", "Africa/Casablanca", "UTC",
         "America/Boa_Vista"]  # fmt: skip
CHANGES = [1_711_846_800, 1_729_990_800, 970_977_600, 971_578_800]
"""Changes of the clock: of Warsaw in 2024, and those of Boa Vista that are a week apart."""


def seconds():
    """Return seconds since 1970, on either clock, around changes and anywhere."""
    draw = random.Random(5)  # noqa: S311  test data
    near = [at + 900 * k + draw.randrange(900) for at in CHANGES for k in range(-40, 40)]
    return near + [draw.randrange(86_400, 4_102_358_400) for _ in range(500)]


def slots(name):
    """Return seconds, and where slots of theirs begin: on a clock, and in UTC if it shows them."""
    second, found = seconds(), []
    columns = {"u": [f"{i:04d}" for i in range(len(second))], "v": [1.0] * len(second)}
    columns |= {place: [0.0] * len(second) for place in ("lat", "lon")}
    for clock, times in ((name, pa.array(second)), ("UTC", pa.array(second, pa.timestamp("s")))):
        read = hv.read(
            pa.table(columns | {"t": times}), user="u", value="v", time="t", lat="lat", lon="lon",
            bounds=(0, 9), cells=hv.Cells(0, "15min", clock), timezone=name,
            select=hv.Select(min_users=1), accept_single_records=True,
        )  # fmt: skip
        found.append(read.public.cells.slot[read.occupancy.cell][read.occupancy.user.argsort()])
    return second, *found


@pytest.mark.parametrize("name", ZONES)
def test_offsets_are_the_time_zone_s(name):
    """At every instant the offset is the one zoneinfo gives.

    At every wall-clock reading, also a skipped or repeated one, the one that fold=0 means.
    """
    zone, local = zoneinfo.ZoneInfo(name), dt.datetime(1970, 1, 1)  # noqa: DTZ001  a wall clock
    for second, slot, back in zip(*slots(name), strict=True):
        offset = dt.datetime.fromtimestamp(second, zone).utcoffset().total_seconds()
        assert slot == (second + offset) // 900 * 900
        wall = local + dt.timedelta(seconds=second)
        assert back == wall.replace(tzinfo=zone).timestamp() // 900 * 900
