"""What the published maps of earlier days give the next one, against the true averages.

Division of the data, fixed before any judging figure was looked at:

- tuning: invented cities of the seeds 11 and 12; every choice and constant is made on these;
- judging: invented cities of the seeds 5, 17 and 29, which nothing was tuned on, but for the room
  in intervals, which was widened after those of seed 5 had held too rarely;
- intervals once more, over 28 days: tuning 5, 7, 11 and 12, judging 41, 43 and 47.

Quantiles and shares (`--statistic p50`, `--statistic "share<10"`): tuning seed 11, judging seeds 5,
17 and 29 of the same cities, so divided before any figure of theirs was looked at. Private presence
(`--presence`): 10,000 private cars (`CarCity`) of the seeds 11 for tuning and 5, 17 and
29 for judging, over 28 days, with a record each kilometre in place of 250 m, which takes a quarter
of the time; speeds from 0 to 100, every used cell of the declared box counts that is open.

A real feed (`--flights`): ground speeds of the aircraft that left New York in 2013, user-day, by
destination, hexagons of resolution 2, a map a day; `--first` and `--every` choose the days. Nothing
was tuned on it at first, and each row was judged once.

Users' deviation within a cell, later: tuning flights of January to June and seeds 5, 7, 11 and 12;
judging flights of July to December (28 days from 1 August; 22 days from 3 July, every eighth) and
the cities of the seeds 53, 59 and 61.

Widths of intervals: tuning flights of January to June and seeds 5, 7, 11 and 12; judging, once,
seeds 61, 67 and 71, and flights over 28 days from 15 September and from 1 November (a few of whose
days were in the series of every eighth day before). Flights of August are not clean any more.

Numbers of units under private presence: tuning cars of seed 11, judging, once, 73 and 79, 16 days.

Shares under private presence, and shapes as narrow as cells differ: tuning cars of seed 11, flights
of January to June and cities of the seeds 5, 7 and 11; judging, once, flights from 15 September (no
quantile or share of theirs was looked at before) and cities of the seeds 97 and 101. Cars of the
seeds 97 and 101 and these flights showed intervals of shares to be a little too narrow, which were
then widened on the tuning sets and judged, once, on cars of the seeds 103 and 107, 16 days, and on
flights from 1 November.

Quantiles under private presence, in bins that add up: tuning cars of the seeds 11 and 12, flights
of January to June. Cars of the seed 109 and flights from 13 October and 1 December showed errors of
the first day's shape to last, which was then smoothed on the tuning sets; judging, once, cars of
the seeds 127 and 131, 16 days, and flights, 28 days from 1 July and 18 days from 28 August. Their
intervals were then made narrower: tuning flights of January to May and cars of 11 and 12; judging,
once, cars of the seeds 137 and 139, 16 days, and flights from 1 July and 28 August again. What bins
do not show of weights (`UNSEEN`) was added on the tuning sets after that; judging, once, cars of
the seeds 149 and 151, 16 days.

The invented city is `hexveil simulate --users 300 --days 42 --interval 2min`; privacy unit
user-day, at least 10 units in a cell, slots of 3 hours. With `--closed` two hexagons run at half
speed from day 21 on, and from day 26 on half of the fleet is gone. Ranges follow from memory as in
`publish`, or are bought every day. Only figures of error are kept, averages of the second half.

`--repeats 50` publishes the series again with simulated noise, and names the cells whose intervals
hold on less than 70 % of all repeats and days of the second half, with what sets them apart.

`--archive` has `hexveil publish` make the days, and prints the CPU time of the last one in parts of
the same day without earlier ones: reading, planning, release and page, medians of seven pairs.

    python benchmarks/learning.py --seed 5 --epsilon 1 --out docs/figures/memory.csv
    python benchmarks/learning.py --seed 11 --archive
"""

from __future__ import annotations

import argparse
import csv
import shutil
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

import duckdb
import h3
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.collections import PolyCollection
from pyarrow import parquet

import hexveil as hv
from hexveil.cli import main as run_command
from hexveil.mechanisms.distribution.shape_statistics import ShapeStatistics
from hexveil.mechanisms.simulated_noise import SimulatedNoise
from hexveil.model.areas import Polygon
from hexveil.model.statistic_terms import column_of, on_lattice, parse_statistics
from hexveil.planning.presence.presence_request import FleetDeclaration
from hexveil.publishing import pipeline
from hexveil.publishing.memory.history import History, forecast_cells
from hexveil.publishing.memory.presence_history import forecast_declared
from hexveil.publishing.memory.score_history import forecast_scores
from hexveil.publishing.memory.stored_day import EarlierRelease, read_earlier, to_bytes
from hexveil.simulation import flights
from hexveil_research import cars

CARS, RECORD_KM = 10_000, 1.0
AMERICA, AIRCRAFT = (-125.0, 24.0, -66.0, 50.0), FleetDeclaration(900, 2, 2)
DAYS = 42
ENDS = ("estimate", "low", "high")
ALONE = {"estimate": "today", "low": "today_low", "high": "today_high"}
MORNING = 9 * 3600
CLOSED, HALVED = 21, 26
AnyRecords: TypeAlias = Any
"""Records of either privacy model."""
ReadDay: TypeAlias = tuple[date, AnyRecords, dict[str, Any]]
MONTH, LEAST_DAYS, LEAST_SHARE, PAIRS = 28, 10, 0.7, 7
RUN = """source = "{place}/../{day}.parquet"
columns = {{ user = "license_plate", value = "speed", location = "location.coordinates", time = "observationDateTime" }}
values = {{ bounds = [0, 65] }}
cells = {{ resolution = {asked.resolution}, timeslot = "3h", timezone = "Asia/Kolkata" }}
plan = {{ epsilon = {asked.epsilon} }}
read = {{ privacy_unit = "user-day" }}
release = {{ out = "{place}/maps", accept_noise = true }}
ledger = {{ url = "{place}/ledger.sqlite", budget = 1000, dataset = "city" }}
"""  # noqa: E501


@dataclass(frozen=True)
class Feed:
    """Where the records of a feed have what, and how they are published."""

    user: str
    value: str
    time: str
    place: dict[str, str]
    bounds: tuple[float, float]
    zone: str = "Asia/Kolkata"
    slot: str = "3h"


COORDINATES = {"lat": "lat", "lon": "lon"}
CITY = Feed(
    "license_plate", "speed", "observationDateTime",
    {"location": "location.coordinates"}, (0.0, 65.0),
)  # fmt: skip
CAR_FEED = Feed("car", "speed", "time", COORDINATES, (0.0, 100.0))
FLIGHTS = Feed(
    "tailnum", "ground speed", "time_hour", COORDINATES, (100.0, 600.0), "America/New_York", "1d"
)


@dataclass(frozen=True)
class Day:
    """What a day published, alone and with memory, and the truth."""

    number: int
    published: Any
    columns: dict[str, Any]
    truth: Any
    release: hv.Release
    records: Any


def read_days(folder: Path, asked: argparse.Namespace) -> list[ReadDay]:
    """Return each day of a feed, its records, and the options of its plan beside ε."""
    city = folder / "city.parquet"
    if asked.flights:
        parquet.write_table(flights.records(), city)
    elif asked.presence:
        cars.RECORD_KM = RECORD_KM
        cars.CarCity(CARS, asked.days, asked.seed).write(city)
    else:
        size = ["--users", "300", "--days", str(DAYS), "--interval", "2min"]
        run_command(["simulate", *size, "--seed", str(asked.seed), "--out", str(city)])
    days = []
    for number in range(1, asked.days + 1):
        day = asked.first + timedelta(asked.every * (number - 1))
        days.append((day, *_read(_records(folder, city, day, asked, number), day, asked)))
    return days


def publish(account: Path, read: list[ReadDay], asked: argparse.Namespace) -> list[Day]:
    """Return the days of a feed, each published with the memory of those before it."""
    days: list[Day] = []
    releases: list[EarlierRelease] = []
    for number, (day, records, options) in enumerate(read, 1):
        history = History(day, () if asked.ranges == "alone" else tuple(releases))
        forecast = _forecast(records, history, asked) if asked.ranges == "memory" else None
        plan = hv.plan(records, epsilon=asked.epsilon, history=forecast, advise=False, **options)
        ledger = hv.Ledger(account, dataset="city", budget=1000)
        release = hv.release(records, plan, ledger=ledger, accept_noise=True, history=history)
        published = None
        if release.memory is not None:
            memory = to_bytes(release.memory)
            releases.append(read_earlier(release.manifest, release.table, memory))
            published = releases[-1].published
        truth, counts, shown = _truth(records, plan, release, asked)
        columns = {
            f"{end}{alone}": np.array(release[_column(asked, end, alone, release)])[shown]
            for end in ENDS
            for alone in ("", "_alone")
        }
        days.append(Day(number, published, columns, truth, release, counts))
    return days


def _read(source: Path, day: date, asked: argparse.Namespace) -> tuple[AnyRecords, dict[str, Any]]:
    """Return the records of a day, and the options of its plan beside ε."""
    dates, feed = (day.isoformat(), day.isoformat()), _feed(asked)
    cells = hv.Cells(resolution=asked.resolution, timeslot=feed.slot, timezone=feed.zone)
    common: dict[str, Any] = {
        "user": feed.user, "value": feed.value, "time": feed.time, "bounds": feed.bounds,
        "privacy_unit": "user-day", **feed.place,
    }  # fmt: skip
    options: AnyRecords = {} if asked.statistic == "mean" else {"statistics": (asked.statistic,)}
    if asked.presence:
        box, fleet = (AMERICA, AIRCRAFT) if asked.flights else (cars.BOX, CARS)
        declared = replace(cells, area=Polygon.of_box(*box))
        common |= {"protect": "presence", "select": hv.Select(dates=dates)}
        return hv.read(source, cells=declared, **options, **common), {"fleet": fleet, **options}
    chosen = hv.Select(dates=dates, min_users=10)
    return hv.read(source, cells=cells, select=chosen, **options, **common), options


def _feed(asked: argparse.Namespace) -> Feed:
    """Return the feed that is asked for."""
    return FLIGHTS if asked.flights else CAR_FEED if asked.presence else CITY


def _forecast(records: AnyRecords, history: History, asked: argparse.Namespace) -> AnyRecords:
    """Return the forecast of a day's cells as `hexveil publish` makes it."""
    if asked.presence:
        return forecast_declared(records.public, history, (asked.statistic,))
    if asked.statistic == "mean":
        return forecast_cells(records.public, history)
    return forecast_scores(records.public, (asked.statistic,), history)


def _column(asked: argparse.Namespace, end: str, alone: str, release: hv.Release) -> str:
    """Return the column of an estimate or of an end of its interval."""
    prefix = column_of(asked.statistic)
    if alone and f"{prefix}_{ALONE[end]}" in release.columns:
        return f"{prefix}_{ALONE[end]}"
    return prefix if asked.presence and end == "estimate" else f"{prefix}_{end}"


def _truth(
    records: AnyRecords, plan: hv.Plan, release: hv.Release, asked: argparse.Namespace
) -> tuple[AnyRecords, AnyRecords, AnyRecords]:
    """Return the true statistics of cells, their records, and which cells are judged."""
    lattice = records.public.lattice
    shown: AnyRecords = slice(None)
    if asked.presence:
        pairs, n = records.pairs, plan.single.facts.grid.n_cells
        counts = np.bincount(pairs.cell, pairs.records, n)
        totals = np.bincount(pairs.cell, pairs.records * pairs.mean, n)
        shown = np.array(release["is_open"], dtype=bool) & (counts > 0)
        totals, counts, own = totals[shown], counts[shown], pairs.bins
    else:
        pairs, own = records.occupancy.local(), records.sums.bins
        counts, n = pairs.records_per_cell, pairs.n_cells
        totals = np.add.reduceat(records.sums.total, pairs.start[:-1])
    if asked.statistic == "mean":
        return float(lattice.lower) + totals / counts * float(lattice.quantum), counts, shown
    bins = records.public.bins
    shares = np.zeros((n, bins.n_bins))
    np.add.at(shares, (pairs.cell[own.pair], own.bin), own.count)
    shares = shares[shown]
    terms = on_lattice(parse_statistics((asked.statistic,))[1], lattice)
    statistics = ShapeStatistics(bins, lattice, terms)
    return statistics.of(shares / shares.sum(axis=1, keepdims=True))[:, 0], counts, shown


def _records(folder: Path, city: Path, day: date, asked: argparse.Namespace, number: int) -> Path:
    """Return the records of a day; from day 21 on with closed hexagons, if that is asked."""
    number, feed = number if asked.closed else 0, _feed(asked)
    source = folder / f"{day}.parquet"
    changed = "*"
    if number >= CLOSED:
        # The two busiest places of the city, about 10 km across.
        near = "abs(location.coordinates[2] - 21.19) + abs(location.coordinates[1] - 72.83) < 0.1"
        changed = f"* replace (case when {near} then speed / 2 else speed end as speed)"
    halved = "and hash(license_plate) % 2 = 0" if number >= HALVED else ""
    with duckdb.connect() as own:
        own.execute(f"SET TimeZone = '{feed.zone}'")
        own.execute(
            f"COPY (SELECT {changed} FROM '{city}' WHERE \"{feed.value}\" IS NOT NULL AND "
            f"{feed.time}::timestamptz::date = DATE '{day}' {halved}) TO '{source}'"
        )
    return source


def time_archive(folder: Path, read: list[ReadDay], asked: argparse.Namespace) -> None:
    """Print the CPU time of the last day of an archive, and of the same day alone."""

    def seconds(place: Path, day: date) -> float:
        place.mkdir(exist_ok=True)
        (run := place / "run.toml").write_text(RUN.format(place=place, day=day, asked=asked))
        begun = time.process_time()
        assert hv.publish(run, day.isoformat())[0].state == "published"
        return time.process_time() - begun

    for day, *_ in read[:-1]:
        seconds(folder / "first", day)
    pairs = []
    for repeat in map(str, range(PAIRS)):
        later = shutil.copytree(folder / "first", folder / f"later-{repeat}")
        pairs.append([seconds(place, read[-1][0]) for place in (later, folder / repeat)])
    print("CPU seconds of the last day, and of it alone:", np.median(pairs, axis=0).round(2))


def judge(days: list[Day]) -> list[dict[str, Any]]:
    """Return the error of each day and the share of intervals that hold, alone and with memory."""
    rows = []
    for day in days:
        truth, columns = day.truth, day.columns
        off = np.abs(truth - np.median(truth)).mean()
        row: dict[str, Any] = {"day": day.number, "cells": truth.size, "constant": off}
        for name, end in (("alone", "_alone"), ("memory", "")):
            estimate, low, high = (columns[f"{one}{end}"] for one in ENDS)
            row[name] = np.abs(estimate - truth).mean()
            row[f"covered_{name}"] = ((low <= truth) & (truth <= high)).mean()
            row[f"width_{name}"] = (high - low).mean()
        rows.append(row)
    return rows


def by_cell(days: list[Day]) -> dict[str, list[Any]]:
    """Return of each cell which intervals of the second half's days hold, and the errors."""
    found: dict[str, list[Any]] = defaultdict(list)
    for day in days[len(days) // 2 :]:
        if day.published is not None and day.truth.size == day.published.slot.size:
            estimate, low, high = (day.columns[end] for end in ENDS)
            pairs = zip((low <= day.truth) & (day.truth <= high), estimate - day.truth, strict=True)
            for cell, pair in zip(_cells(day), pairs, strict=True):
                found[cell].append(pair)
    return found


def judge_cells(days: list[Day]) -> float:
    """Return the share of cells whose intervals held on less than 70 % of the second half's days.

    Of cells that have numbers on ten days or more.
    """
    shares = [np.mean(own, axis=0)[0] for own in by_cell(days).values() if len(own) >= LEAST_DAYS]
    return float(np.mean(np.array(shares) < LEAST_SHARE)) if shares else 0.0


def study_cells(folder: Path, read: list[ReadDay], asked: argparse.Namespace) -> None:
    """Print the cells whose intervals hold too rarely over repeats of the noise, and their kind."""
    found: dict[str, list[Any]] = defaultdict(list)
    for repeat in range(asked.repeats):
        noise = SimulatedNoise(np.random.default_rng(repeat), 1)
        with patch.object(pipeline, "VettedNoise", lambda noise=noise: noise):
            days = publish(folder / f"ledger-{repeat}.sqlite", read, asked)
        for cell, pairs in by_cell(days).items():
            found[cell] += pairs
        held, error = np.array([np.mean(pairs, axis=0) for pairs in found.values()]).T
        total = np.mean([pair[0] for pairs in found.values() for pair in pairs])
        seldom = np.flatnonzero(held < LEAST_SHARE)
        print(f"{repeat + 1}: {total:.1%} held; {seldom.size} of {held.size} cells below 70 %")
    levels, units = defaultdict[str, list[Any]](list), defaultdict[str, list[Any]](list)
    for day in days:
        for cell, truth, square in zip(
            _cells(day), day.truth, day.published.share_squares, strict=True
        ):
            levels[cell].append(truth)
            units[cell].append(1.0 / square)
    average = {cell: np.mean(own) for cell, own in levels.items()}
    for number in seldom:
        cell = [*found][number]
        alike = [
            np.mean([average[one] for one in average if part in one.split("|")]) - average[cell]
            for part in cell.split("|")
        ]
        print(f"{cell}: {held[number]:.0%} held, off by {error[number]:+.1f} on average; on "
              f"{len(levels[cell])} days, {np.mean(units[cell]):.0f} units by their shares, level "
              f"{average[cell]:.1f}, its place {alike[0]:+.1f}, its hour {alike[1]:+.1f}, "
              f"differs by {np.std(levels[cell]):.1f} from day to day")  # fmt: skip


def judge_month(days: list[Day]) -> dict[str, float]:
    """Return errors of the averages over the last 28 days and of one constant, and coverage."""
    month = days[-MONTH:]
    rolled = hv.roll_up([day.release for day in month]).table
    totals, counts = Counter[str](), Counter[str]()
    for day in month:
        for cell, truth, records in zip(_cells(day), day.truth, day.records, strict=True):
            totals[cell] += truth * records
            counts[cell] += records
    places = zip(rolled["hexagon"].to_pylist(), rolled["slot"].to_pylist(), strict=True)
    names = [f"{place}|{slot}" for place, slot in places]
    truth = np.array([totals[name] / counts[name] for name in names])
    mean, low, high = (rolled[name].to_numpy() for name in ("mean", "mean_low", "mean_high"))
    return {
        "month_constant": float(np.abs(truth - np.median(truth)).mean()),
        "month": float(np.abs(mean - truth).mean()),
        "covered_month": float(((low <= truth) & (truth <= high)).mean()),
    }


def _cells(day: Day) -> list[str]:
    """Return place and time of each cell of a day."""
    slots = day.published.slot.tolist()
    times = [f"{start // 3600:02}:{start % 3600 // 60:02}" for start in slots]
    return [f"{place}|{at}" for place, at in zip(day.published.place.tolist(), times, strict=True)]


def summarize(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the averages of the second half of the days."""
    later = [row for row in rows if row["day"] > len(rows) // 2]
    return {name: float(np.mean([row[name] for row in later])) for name in rows[0] if name != "day"}


def draw(days: list[Day], file: Path) -> None:
    """Draw the morning of days 1, 7 and 42: with memory, alone, and as it was."""
    places = {place for day in days for place in day.published.place}
    corners = np.array([corner for place in places for corner in h3.cell_to_boundary(place)])
    edges = [(corners[:, k].min() - 0.01, corners[:, k].max() + 0.01) for k in (1, 0)]
    figure, axes = plt.subplots(3, 3, figsize=(8, 8))
    for column, number in enumerate((1, 7, 42)):
        day = next(one for one in days if one.number == number)
        shown = day.published.slot == MORNING
        outlines = [
            [(lon, lat) for lat, lon in h3.cell_to_boundary(cell)]
            for cell in day.published.place[shown]
        ]
        drawn_maps = {
            "with memory": day.columns["estimate"],
            "alone": day.columns["estimate_alone"],
            "true averages": day.truth,
        }
        for axis, (name, numbers) in zip(axes[:, column], drawn_maps.items(), strict=True):
            drawn = PolyCollection(outlines, array=numbers[shown], cmap="viridis", edgecolors="w")
            drawn.set_clim(10, 35)
            axis.add_collection(drawn)
            axis.set(xlim=edges[0], ylim=edges[1], xticks=[], yticks=[])
            axis.set_aspect(1 / np.cos(np.radians(21.2)))
            error = np.abs(numbers - day.truth).mean()
            off = f"\noff by {error:.1f} km/h" if error else ""
            axis.set_title(f"day {number}, {name}{off}", fontsize=9)
    figure.colorbar(drawn, ax=axes, label="average speed, km/h", shrink=0.6)
    figure.savefig(file, bbox_inches="tight", metadata={"Date": None})


def main() -> None:
    """Judge one city at one epsilon, and append a row to a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--resolution", type=int, default=6)
    parser.add_argument("--statistic", default="mean")
    parser.add_argument("--presence", action="store_true", help="private, of invented cars")
    parser.add_argument("--closed", action="store_true")
    parser.add_argument("--flights", action="store_true", help="a real feed; no seed")
    parser.add_argument("--first", type=date.fromisoformat, default=date(2024, 1, 1))
    parser.add_argument("--every", type=int, default=1, help="days from one map to the next")
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--ranges", choices=("memory", "bought", "alone"), default="memory")
    parser.add_argument("--archive", action="store_true", help="CPU time of the last day")
    parser.add_argument("--repeats", type=int, default=0, help="of the noise; names cells")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--picture", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        read = read_days(Path(folder), asked)
        if asked.archive:
            time_archive(Path(folder), read, asked)
            return
        if asked.repeats:
            study_cells(Path(folder), read, asked)
            return
        days = publish(Path(folder) / "ledger.sqlite", read, asked)
    if asked.picture is not None:
        draw(days, asked.picture)
    rows = judge(days)
    line = {"seed": "flights" if asked.flights else asked.seed}
    line |= {name: getattr(asked, name) for name in ("resolution", "closed", "epsilon", "ranges")}
    statistic = f"presence {asked.statistic}" if asked.presence else asked.statistic
    line |= summarize(rows) | {"statistic": statistic, "cells_below_70": judge_cells(days)}
    if asked.statistic == "mean" and asked.ranges != "alone":
        line |= judge_month(days)
    print(line)
    if asked.out is not None:
        is_new = not asked.out.exists()
        with asked.out.open("a", newline="") as file:
            table = csv.DictWriter(file, line)
            if is_new:
                table.writeheader()
            table.writerow({k: round(v, 3) if isinstance(v, float) else v for k, v in line.items()})


if __name__ == "__main__":
    main()
