"""Contents of the gallery: the records, the run files, and each map's own options.

All records are invented or public. The page prints these settings; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass

CITY = "--users 300 --days 28 --interval 5min --out city.parquet --streets streets.geojson"
"""Options of `hexveil simulate`: the records of the page "A first map in five minutes"."""

BUSES = """\
source = "city.parquet"

[columns]
user = "license_plate"
value = "speed"
location = "location.coordinates"
time = "observationDateTime"

[values]
bounds = [0, 65]
quantum = 0.1
value_unit = "km/h"

[cells]
resolution = 7
timeslot = "6h"
timezone = "Asia/Kolkata"
slot = "pooled"

[select]
min_users = 800

[read]
privacy_unit = "user-day"

[plan]
epsilon = 1

[release]
out = "map"
context = "streets.geojson"
hide_geography = true

[ledger]
url = "ledger.sqlite"
dataset = "buses"
budget = 50
"""

FLIGHTS = """\
source = "flights.parquet"

[columns]
user = "tailnum"
value = "ground speed"

[values]
bounds = [100, 600]
quantum = 0.1
value_unit = "mph"

[cells]
labels = ["origin", "hour"]

[plan]
epsilon = 1
clipping_range = "auto"

[release]
out = "map"

[ledger]
url = "ledger.sqlite"
dataset = "flights"
budget = 50
"""

SLOT = "06:00"
"""The slot that is shown of each map."""


@dataclass(frozen=True)
class MapPanel:
    """One map of a picture.

    Attributes
    ----------
    title : str
    options : str
        Of `hexveil release`, beside those of the run file.
    column : str
        What is shown of the release: by default the average that its page shows; "true" is the true
        average, which an invented city has.
    """

    title: str
    options: str = ""
    column: str = "mean"


@dataclass(frozen=True)
class Picture:
    """One picture of the gallery.

    Attributes
    ----------
    name : str
        Of its file.
    panels : tuple of Panel
    label : str
        What the colours say.
    ends : pair of float
        Of the scale of colours.
    """

    name: str
    panels: tuple[MapPanel, ...]
    label: str = "Average speed, km/h"
    ends: tuple[float, float] = (8.0, 40.0)


# The command refuses maps as noisy as these, which is what some of them show.
_COARSE = (
    "--set select.min_users=200 --set plan.clipping_range=bounds --set release.accept_noise=true"
)
_FINE = "--resolution 8 --set select.min_users=50 --epsilon 0.2 --set release.accept_noise=true"
_UNSURE = f"{_COARSE} --epsilon 0.5 --set release.estimates=raw,smoothed"
_NARROW = "--set select.min_users=200"
_SPREAD = "--epsilon 3 --set plan.statistics=mean,sd"

MAPS = (
    Picture(
        "gallery-first", (MapPanel("True averages", column="true"), MapPanel("Released at ε = 1"))
    ),
    Picture(
        "gallery-price",
        (
            MapPanel("ε = 0.1", "--epsilon 0.1 --set release.accept_noise=true"),
            MapPanel("ε = 3", "--epsilon 3"),
        ),
    ),
    Picture(
        "gallery-too-fine",
        (MapPanel("True averages", _FINE, "true"), MapPanel("Released: too fine", _FINE)),
    ),
    Picture(
        "gallery-smoothed",
        (MapPanel("Raw", _UNSURE, "mean_raw"), MapPanel("Smoothed", _UNSURE, "mean_smoothed")),
    ),
    Picture(
        "gallery-intervals",
        (MapPanel("Whole span", _COARSE), MapPanel("Ranges of single cells", _NARROW)),
    ),
    Picture(
        "gallery-spread",
        (MapPanel("True", _SPREAD, "true_sd"), MapPanel("Released at ε = 3", _SPREAD, "sd_raw")),
        label="Standard deviation of speeds, km/h",
        ends=(8.0, 22.0),
    ),
)
LABELS = Picture(
    "gallery-labels", (MapPanel("Released at ε = 1"),), "Average ground speed, mph", (330.0, 460.0)
)
