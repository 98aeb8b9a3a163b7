"""The rules of reading, record by record in plain Python: slow, and obviously the rules."""

import datetime as dt
import hashlib
import math
import zoneinfo
from fractions import Fraction

import h3

LAST = 4_102_444_800
HALF = Fraction(1, 2)


def local_second(micros, timezone):
    """Return the local wall clock of an instant in seconds since 1970."""
    at = dt.datetime.fromtimestamp(micros // 10**6, dt.UTC)
    wall = at.astimezone(zoneinfo.ZoneInfo(timezone)).replace(tzinfo=None)
    return int((wall - dt.datetime(1970, 1, 1)).total_seconds())  # noqa: DTZ001  a wall clock


def quanta(value, lower, upper, quantum):
    """Return a value in whole quanta above the lower bound."""
    clamped = max(min(value, float(upper)), float(lower))
    scaled = clamped * float(quantum.denominator) / float(quantum.numerator)
    whole = math.floor(abs(scaled) + 0.5) if abs(scaled) % 1 == 0.5 else round(abs(scaled))
    whole = whole if scaled >= 0 else -whole
    steps = int((upper - lower) / quantum)
    return max(min(whole - int(lower / quantum), steps), 0)


def keep(record, rules):
    """Return why a record is left out, or None."""
    value, user, micros, lat, lon = record
    if value is None or not math.isfinite(value):
        return "value"
    if user in (None, ""):
        return "user"
    if micros is None or not 0 <= micros < LAST * 10**6:
        return "time"
    if lat is None or lon is None or not (-90 <= lat <= 90 and -180 <= lon <= 180):
        return "place"
    return deselected(value, local_second(micros, rules["timezone"]), lat, lon, rules)


def deselected(value, wall, lat, lon, rules):
    """Return which selection leaves a usable record out, or None."""
    first, last = rules["dates"] or ("0", "9")
    west, south, east, north = rules["box"] or (-180, -90, 180, 90)
    day = str(dt.date(1970, 1, 1) + dt.timedelta(wall // 86400))
    tests = {
        "drop": Fraction(str(value)) in rules["drop_values"],
        "hours": rules["hours"] is not None and wall // 3600 % 24 not in rules["hours"],
        "dates": not first <= day <= last,
        "box": not (west <= lon <= east and south <= lat <= north),
    }
    return next((why for why, out in tests.items() if out), None)


def unit_of(user, wall, unit):
    """Return what is protected together."""
    day = wall // 86400
    if unit == "user":
        return (user.encode(),)
    return user.encode(), day if unit == "user-day" else (day + 3) // 7


def slot_of(wall, grid):
    """Return a record's slot in seconds, None without slots."""
    if grid.seconds is None:
        return None
    start = wall // grid.seconds * grid.seconds
    return start % 86400 if grid.slot == "pooled" else start


def without_repeats(records):
    """Return one record (user, micros, *place, quanta) of each user and time."""
    together = {}
    for user, micros, *place, k in records:
        together.setdefault((user, micros), []).append((*place, k))
    kept = []
    for (user, micros), repeats in together.items():
        drawn = int(hashlib.md5(f"{user} {micros}".encode()).hexdigest()[:15], 16)  # noqa: S324
        place = sorted(repeats)[drawn % len(repeats)][:-1]
        there = [k for *other, k in repeats if tuple(other) == place]
        average = Fraction(sum(there), len(there))
        half_down = average % 1 == HALF and drawn // len(repeats) % 2
        kept.append((user, micros, *place, math.floor(average + HALF) - half_down))
    return kept


def count(records, grid, rules):
    """Return {(hexagon, slot): {unit: (n, sum, squares)}} of used cells, and drop counts."""
    left_out = {}
    kept = []
    for record in records:
        why = keep(record, rules)
        left_out[why] = left_out.get(why, 0) + 1
        if why is None:
            kept.append(record)
    counted = [(*record[1:], quanta(record[0], *rules["scale"])) for record in kept]
    if rules.get("repeats", "drop") == "drop":
        counted = without_repeats(counted)
    cells = {}
    for user, micros, lat, lon, k in counted:
        wall = local_second(micros, rules["timezone"])
        hexagon = h3.str_to_int(h3.latlng_to_cell(lat, lon, grid.resolution))
        pairs = cells.setdefault((hexagon, slot_of(wall, grid)), {})
        unit = unit_of(user, wall, rules.get("privacy_unit", "user"))
        n, total, squares = pairs.get(unit, (0, 0, 0))
        pairs[unit] = n + 1, total + k, squares + k * k
    used = {c: p for c, p in cells.items() if len(p) >= rules["min_users"]}
    if rules.get("top") is not None:
        ranked = sorted(used, key=lambda c: (-sum(n for n, *_ in used[c].values()), c))
        used = {c: used[c] for c in ranked[: rules["top"]]}
    return used, left_out


def as_arrays(used):
    """Return cells, and (cell, unit, n, sum, squares) rows as a data set numbers them."""
    cells = sorted(used)
    units = {u: i for i, u in enumerate(sorted({u for pairs in used.values() for u in pairs}))}
    rows = [
        (i, units[unit], *sums)
        for i, cell in enumerate(cells)
        for unit, sums in sorted(used[cell].items())
    ]
    return cells, rows
