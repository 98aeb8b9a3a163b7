"""The gallery's pictures: drawn whole, and made as the page says."""

import gzip
import re
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hexveil.base import hexagons
from hexveil.report.figure_style import colours_of
from hexveil.simulation.city import City
from hexveil_research.pictures import gallery, gallery_settings, maps, privacy, releases
from hexveil_research.pictures.__main__ import main
from pictures import cut_off

colors = pytest.importorskip("matplotlib.colors")

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "start" / "gallery.md").read_text(encoding="utf-8")
FIRST = (DOCS / "start" / "first-map.md").read_text(encoding="utf-8")
BYTES = 60_000
"""Most of a picture as servers send it, compressed: it has to load fast."""
VALUES = [10.0, 20.0, 30.0, 60.0]
STREETS = {
    "type": "FeatureCollection",
    "features": [
        {"geometry": {"type": "LineString", "coordinates": [[74.8, 21.1], [75.0, 21.3]]}},
        {"geometry": {"type": "MultiLineString", "coordinates": [[[74.9, 21.1], [74.9, 21.3]]]}},
    ],
}


def tomls(page):
    """Return the run files of a page."""
    found = re.findall(r"^```toml\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    return [tomllib.loads(text) for text in found]


def one_line(text):
    """Return a page's text with its broken commands on one line."""
    return re.sub(r" \\\n +", " ", text)


def shown(title, quality):
    """Return four hexagons and a value for each."""
    at = hexagons.of_places(pa.array([21.2] * 4), pa.array([74.85, 74.9, 74.95, 75.0]), 7)
    return maps.MapContent(title, at.to_pylist(), np.array(VALUES), quality, np.ones(4, dtype=bool))


def drawn(*qualities):
    """Return a picture of maps of these qualities."""
    picture = gallery_settings.MAPS[0]
    parts = [shown(f"Map {place}", quality) for place, quality in enumerate(qualities)]
    return maps.draw(picture, parts, STREETS)


def test_a_map_is_drawn_whole():
    """No text is cut off, and each map has all its hexagons above the streets."""
    grades = ["good", "caution", "noise", "noise"]
    figure = drawn(["good"] * 4, grades)
    assert cut_off(figure) == []
    for axes, quality in zip(figure.axes[:2], (["good"] * 4, grades), strict=True):
        (cells,) = [c for c in axes.collections if type(c).__name__ == "PolyCollection"]
        fills = [colors.to_hex(fill) for fill in cells.get_facecolor()]
        assert fills == colours_of(np.array(VALUES), quality, gallery_settings.MAPS[0].ends)


def test_the_legend_explains_each_grade():
    """Each quality but good is in words there; a legend that explains nothing is left out."""
    (legend,) = drawn(["good", "caution", "cut off", "noise"], ["good"] * 4).legends
    assert [text.get_text() for text in legend.get_texts()] == list(maps.WORDS.values())
    assert drawn(["good"] * 4).legends == []


@pytest.mark.parametrize("column", ["mean_raw", "mean_estimate"])
def test_labels_say_number_and_interval(column):
    """The larger side of an interval, rounded up: what is shown is never narrower than released."""
    table = pa.table(
        {
            "origin": ["JFK", "LGA"],
            "hour": ["7", "12"],
            "mean_raw": [410.0, 340.2],
            column: [400.4, 340.2],
            "mean_low": [360.0, 280.2],
            "mean_high": [450.5, 370.0],
            "mean_quality": ["good", "noise"],
        }
    )
    figure = gallery.draw(gallery_settings.LABELS, table)
    assert cut_off(figure) == []
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.texts] == ["400 ± 51", "340 ± 60"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["7:00", "12:00"]


def test_the_page_shows_every_picture_and_its_settings():
    """Each picture is on the page, with the options that made it."""
    for picture in (*gallery_settings.MAPS, gallery_settings.LABELS):
        assert f"(../images/{picture.name}.svg)" in PAGE
        for panel in picture.panels:
            run = "flights.toml" if picture is gallery_settings.LABELS else "buses.toml"
            assert f"hexveil release {run} {panel.options}".strip() in one_line(PAGE)


def test_records_and_run_files_are_those_of_the_pages():
    """What the reader is told to run is what made the pictures."""
    assert f"hexveil simulate {gallery_settings.CITY}\n" in one_line(FIRST)
    (first,), (flights,) = tomls(FIRST), tomls(PAGE)
    buses = tomllib.loads(gallery_settings.BUSES)
    assert buses | {"ledger": buses["ledger"] | {"budget": 5}} == first
    assert tomllib.loads(gallery_settings.FLIGHTS) | {"release": {"out": "flights"}} == flights


@pytest.mark.parametrize("name", [*gallery.NAMES, *privacy.NAMES])
def test_committed_pictures_load_fast(name):
    """Each is there as SVG, of few bytes, and loads nothing."""
    content = (DOCS / "images" / f"{name}.svg").read_bytes()
    assert len(gzip.compress(content)) <= BYTES
    assert content.startswith(b"<?xml")
    assert not re.search(rb"<script|href=\"(?!#|data:)", content)


def test_true_averages_are_those_of_the_records(tmp_path):
    """Of each cell, the average and deviation of its records, repeats dropped."""
    pytest.importorskip("pandas")
    City(users=12, days=2, interval="10min", seed=3).write(tmp_path / "city.parquet")
    table = pq.read_table(tmp_path / "city.parquet").flatten().to_pandas()
    table = table.drop_duplicates(["license_plate", "observationDateTime"])
    place = np.array(table["location.coordinates"].to_list())
    at = hexagons.of_places(pa.array(place[:, 1]), pa.array(place[:, 0]), 5)
    names = hexagons.names(np.array(at.to_pylist(), dtype=np.uint64))
    time = table["observationDateTime"]
    hours = time.map(lambda text: int(str(text)[11:13]))
    cells = np.array([f"{n}/{6 * (h // 6):02d}:00" for n, h in zip(names, hours, strict=True)])
    cell = max(set(cells), key=list(cells).count)
    speeds = table["speed"].to_numpy(dtype=float)[cells == cell]
    found = releases.truth(tmp_path, [cell], 5)
    assert found["true"][0] == pytest.approx(speeds.mean(), rel=1e-9)
    assert found["true_sd"][0] == pytest.approx(speeds.std(), rel=1e-9)


def test_an_unknown_picture_is_named(capsys, tmp_path):
    """The command says which name it does not know."""
    with pytest.raises(SystemExit):
        main([str(tmp_path), "gallery-last"])
    assert "gallery-last" in capsys.readouterr().err


@pytest.mark.slow
def test_a_failing_command_is_told(tmp_path):
    """What the command said is passed on, in one sentence."""
    with pytest.raises(releases.HexveilError, match=r"hexveil release missing\.toml"):
        releases.command(tmp_path, "release", "missing.toml")
