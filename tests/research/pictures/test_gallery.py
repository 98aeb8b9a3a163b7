"""The gallery's pictures: drawn whole, and made as the page says."""

import gzip
import math
import re
import tomllib

import numpy as np
import pytest

import hexveil as hv
from hexveil_research.papers.gallery import paper_gallery
from hexveil_research.pictures import gallery, gallery_settings, privacy
from source_trees import DOCS, ROOT

PAGE = (DOCS / "start" / "gallery.md").read_text(encoding="utf-8")
FIRST = (DOCS / "start" / "first-map.md").read_text(encoding="utf-8")
BYTES = 60_000
"""Most of a picture as servers send it, compressed: it has to load fast."""


def tomls(page):
    """Return the run files of a page."""
    found = re.findall(r"^```toml\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    return [tomllib.loads(text) for text in found]


def one_line(text):
    """Return a page's text with its broken commands on one line."""
    return re.sub(r" \\\n +", " ", text)


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
    buses, flights = tomls(PAGE)
    assert tomllib.loads(gallery_settings.BUSES) == buses
    assert tomllib.loads(gallery_settings.FLIGHTS) | {"release": {"out": "flights"}} == flights


@pytest.mark.parametrize("name", [*gallery.NAMES, *privacy.NAMES])
def test_committed_pictures_load_fast(name):
    """Each is there as SVG, of few bytes, and loads nothing."""
    content = (DOCS / "images" / f"{name}.svg").read_bytes()
    assert len(gzip.compress(content)) <= BYTES
    assert content.startswith(b"<?xml")
    assert not re.search(rb"<script|href=\"(?!#|data:)", content)


@pytest.mark.parametrize("name", ["gallery-cars.png", "gallery-distributions.svg"])
def test_the_page_says_how_a_picture_was_made(name):
    """The picture is of few bytes, and the page has the command."""
    content = (DOCS / "images" / name).read_bytes()
    assert len(content if name.endswith("png") else gzip.compress(content)) <= 150_000
    assert f"(../images/{name})" in PAGE
    assert f"python -m hexveil_research.pictures my-pictures {name.partition('.')[0]}" in PAGE


def test_every_picture_has_what_makes_it():
    """All that docs/images holds is drawn by research code, or named by the script of the page."""
    pages = (ROOT / "tools" / "page" / "picture.py").read_text(encoding="utf-8")
    papers = [study.name.replace(":", "-") for study in paper_gallery.studies()]
    drawn = [*gallery.NAMES, *privacy.NAMES, "gallery-distributions", "hexagon-dark"]
    drawn += [f"paper-{name}" for name in papers if "-fig" in name]
    made = {f"{name}.svg" for name in drawn} | set(re.findall(r"\w+-map\.png", pages))
    assert {file.name for file in (DOCS / "images").iterdir()} == made | {"gallery-cars.png"}


# ---- The pictures of user-level privacy: drawn whole, and with the numbers that the page says -


PRIVACY_PAGE = (DOCS / "understand" / "user-level-privacy.md").read_text(encoding="utf-8")
LIMIT = 13
"""The limit that the page names."""


def test_factors_on_the_page():
    """The page's factors and beliefs are those of its ε, rounded away from what was believed."""
    for epsilon, digits in ((0.3, 2), (1, 2), (3, 1), (5, 0)):
        factor = math.ceil(np.exp(epsilon) * 10**digits) / 10**digits
        assert f"{factor:g} at ε = {epsilon:g}" in PRIVACY_PAGE
    one, five = (float(privacy.belief(np.array([0.5]), epsilon)[0]) for epsilon in (1, 5))
    assert f"believe {math.ceil(1000 * one) / 10:.1f} % at most at ε = 1" in PRIVACY_PAGE
    assert f"and {math.floor(1000 * (1 - one)) / 10:.1f} % at least" in PRIVACY_PAGE
    assert f"it may be {math.ceil(1000 * five) / 10:.1f} %" in PRIVACY_PAGE


def test_losses_on_the_page():
    """What buses lose by record and by bus, and what counting cells would claim, are computed."""
    occupancy, made = privacy.fleet(), privacy.planned()
    scales = privacy.SPAN / occupancy.records_per_cell
    by_record = hv.theory.privacy_loss(occupancy, scales, None, privacy.SPAN)
    assert by_record == pytest.approx(occupancy.records_per_user)
    assert f"{by_record.min():.0f} to {by_record.max():.0f} here" in PRIVACY_PAGE
    assert made.losses().max() <= 1
    assert f"half of them {np.median(made.losses()):.2f} or less" in PRIVACY_PAGE
    assert f"would have claimed {float(made.l0_epsilon):.2f} instead of 1" in PRIVACY_PAGE


def test_clipping_on_the_page():
    """The limit is the best there is, and noise and bias at it are those of the page."""
    counts = np.array(privacy.ONE_CELL)
    noise, bias = [], []
    for limit in range(1, counts.max() + 1):
        kept = np.minimum(counts, limit)
        noise.append(hv.theory.user_midpoint_mean_sensitivity(kept, counts, privacy.SPAN).max())
        bias.append(hv.theory.midpoint_mean_bias(kept, counts, privacy.SPAN))
    total = np.add(noise, bias)
    assert int(total.argmin()) + 1 == LIMIT
    best = LIMIT - 1
    words = f"the noise is {noise[best]:.1f} km/h. Clipping brings a bias: at most"
    assert f"{words} {bias[best]:.1f} km/h" in PRIVACY_PAGE
    assert f"The sum of both is {total[best]:.1f} instead of {total[-1]:.1f}" in PRIVACY_PAGE
    assert (
        f"for {(counts - np.minimum(counts, LIMIT)).sum()} records out of {counts.sum()}"
        in PRIVACY_PAGE
    )


def test_pseudo_users_on_the_page():
    """Their noise, and the bias that is its price."""
    facts = {"bounds": (0, privacy.SPAN), "epsilon": 1}
    arrays = hv.mechanisms.ArrayAveraging(grouping="best_fit", cap=6).plan(
        privacy.ONE_CELL, **facts
    )
    plain = hv.mechanisms.Baseline().plan(privacy.ONE_CELL, **facts)
    assert arrays.allocation.groups.n_arrays == 7
    assert f"from {plain.noise_scale:.0f} to {arrays.noise_scale:.0f} km/h" in PRIVACY_PAGE
    assert f"{arrays.worst_case_bias:.1f} km/h at worst" in PRIVACY_PAGE
