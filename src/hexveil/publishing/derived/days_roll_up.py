"""Roll-up of the releases of several days: averages over days, by kind of day, of each cell.

Single days are too noisy to be averaged, and estimates of days that remember each other share their
errors. So averages are those of a joint law of all published numbers (learning/remembering.py),
weighted by the public records of each day. Post-processing: nothing is spent.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from hexveil.base.arrays import Ints
from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.learning.published_day import PublishedDay
from hexveil.learning.remembering import NORMAL_95, DayAverages, average_days
from hexveil.publishing.derived.derived_numbers import (
    DerivedTable,
    ReleaseSource,
    open_source,
    roll_up_statement,
)
from hexveil.publishing.memory.stored_day import EarlierRelease, read_earlier, to_bytes
from hexveil.publishing.published_numbers import Release
from hexveil.publishing.verification.verify import load
from hexveil.report.origin import period
from hexveil.report.templates import render_sentence

KindOfDay: TypeAlias = Literal["all", "weekend", "weekday"]
"""All days together; workdays and weekends; each day of the week."""
WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MOST_DAYS = 92
"""Days of one roll-up: the joint law of all cells is updated by each."""


def roll_up_days(
    releases: Sequence[Release | str | Path],
    *,
    by: KindOfDay = "all",
    key: str | Path | None = None,
) -> DerivedTable:
    """Return the averages over days of the releases of an archive; nothing is spent.

    The table has a row per cell, or by kind of day one per cell and kind: its name, `cells` (days
    with numbers), `records`, `mean`, `mean_low` and `mean_high`. The statement names the releases.

    Parameters
    ----------
    releases : sequence of Release, str or Path
        Of different days, of one value, grid, bounds and privacy unit; each with its `memory.npy`.
    by : "all", "weekend" or "weekday"
        Over all days; workdays and weekends apart; or each day of the week.
    key : str or Path, optional
        File of the holder's public key: then the folders must be signed with it.

    Raises
    ------
    InputError
        If a folder is not as it was written, or releases are not of such days.
    """
    if by not in get_args(KindOfDay):
        raise InputError(f"by must be one of {', '.join(get_args(KindOfDay))}, got {by!r}.")
    if not 2 <= len(releases) <= MOST_DAYS:
        raise InputError(f"a roll-up of days takes 2 to {MOST_DAYS} releases, got {len(releases)}.")
    opened = [
        load(entry, key=key) if isinstance(entry, (str, Path)) else entry for entry in releases
    ]
    dated = sorted(((_earlier(entry), entry) for entry in opened), key=lambda pair: pair[0].day)
    days = [earlier for earlier, _ in dated]
    if len({entry.day for entry in days}) < len(days) or len({entry.key for entry in days}) > 1:
        raise InputError("a roll-up of days takes one release of each day, of one value and grid.")
    records = [np.asarray(entry.table["records"].to_numpy(), dtype=np.int64) for _, entry in dated]
    groups = _groups([date.fromisoformat(entry.day) for entry in days], by)
    stated = next((entry.deviations for entry in days[::-1] if entry.deviations), None)
    numbers = [np.array(group) for group in groups.values()]
    averages = average_days([entry.published for entry in days], records, numbers, stated)
    source = open_source(dated[-1][1])
    tables = [
        _table(own, name, source, [(days[k].published, records[k]) for k in group])
        for own, (name, group) in zip(averages, groups.items(), strict=True)
    ]
    return DerivedTable(pa.concat_tables(tables), _statement(source, days, dated, by))


def _earlier(release: Release) -> EarlierRelease:
    """Return a release as later ones read it."""
    # Mean scores and averages under private presence are no averages of counted records.
    if release.memory is None or release.manifest["components"][0]["kind"] != "moments":
        raise InputError(
            "a release has no averages of counted records in memory.npy, which are rolled up: "
            'hexveil publish keeps those of one value column, unless history is "none".'
        )
    return read_earlier(release.manifest, release.table, to_bytes(release.memory))


def _groups(days: Sequence[date], by: KindOfDay) -> dict[str, list[int]]:
    """Return the numbers of the days of each kind that there are, in order of the week."""
    kinds = {
        "all": [""] * len(WEEK),
        "weekend": ["workday"] * 5 + ["weekend"] * 2,
        "weekday": [*WEEK],
    }[by]
    groups: dict[str, list[int]] = {}
    for weekday, k in sorted((day.weekday(), k) for k, day in enumerate(days)):
        groups.setdefault(kinds[weekday], []).append(k)
    return {name: sorted(group) for name, group in groups.items()}


def _table(
    averages: DayAverages,
    name: str,
    source: ReleaseSource,
    days: Sequence[tuple[PublishedDay, Ints]],
) -> pa.Table:
    """Return the rows of a kind of days."""
    keys = list(zip(averages.place.tolist(), averages.slot.tolist(), strict=True))
    has_slots = "slot" in source.table.column_names
    columns = {
        "hexagon" if "hexagon" in source.table.column_names else "place": averages.place.tolist(),
        **({"slot": [f"{s // 3600:02}:{s % 3600 // 60:02}" for _, s in keys]} if has_slots else {}),
        **({"days": [name] * len(keys)} if name else {}),
    }
    counts: Counter[tuple[str, int]] = Counter()
    for day, records in days:
        cells = zip(day.place.tolist(), day.slot.tolist(), strict=True)
        counts.update(dict(zip(cells, records.tolist(), strict=True)))
    half, bounds = NORMAL_95 * averages.deviation, days[0][0].bounds
    numbers = {
        "cells": averages.days,
        "records": [counts[key] for key in keys],
        "mean": np.clip(averages.mean, *bounds),
        "mean_low": np.clip(averages.mean - half, *bounds),
        "mean_high": np.clip(averages.mean + half, *bounds),
    }
    cell = ["/".join(texts) for texts in zip(*columns.values(), strict=True)]
    return pa.table({"cell": cell} | columns | numbers)


def _statement(
    source: ReleaseSource,
    days: Sequence[EarlierRelease],
    dated: Sequence[tuple[EarlierRelease, Release]],
    by: KindOfDay,
) -> dict[str, Any]:
    """Return the statement of the roll-up."""
    identities, grid = [earlier.identity() for earlier in days], source.manifest["grid"]
    digest = hashlib.sha256(json.dumps(identities).encode()).hexdigest()
    if grid["kind"] == "hexagons":
        grid = grid | {"slot": "pooled"}
    else:
        grid = {"kind": "labels", "columns": ["place", "days"] if by != "all" else ["place"]}
    identity = {
        **source.identity,
        "request": digest,
        "ledger": None,
        "receipt_sha256": None,
        "epsilon_spent": decimal_text(max(entry.epsilon for _, entry in dated)),
        "period": f"{period((days[0].day, days[-1].day), '', brief=True)}, {len(days)} days",
    }
    statement = roll_up_statement(source, "mean", "model")
    statement |= {"source": identity, "grid": grid, "releases": identities, "by": by}
    return statement | {"covers": render_sentence("derived.txt", "days_roll_up_covers")}
