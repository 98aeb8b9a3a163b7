"""Colours that readers with any colour vision can order."""

import itertools

import numpy as np
import pytest

from hexveil.report.figure_style import GROUNDS, colours_of, gradient, palette

# Machado, Oliveira and Fernandes (2009), full deficiency, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
         [0.004733, 0.691367, 0.303900]]
    ),
    "without colour": np.full((3, 3), [0.2126, 0.7152, 0.0722]),
}  # fmt: skip
MODES = pytest.mark.parametrize("mode", ["light", "dark"])


def seen(colour: str, vision: str) -> np.ndarray:
    """Return CIELAB coordinates of a colour as a reader sees it."""
    parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    red_green_blue = np.clip(VISION[vision] @ linear, 0, 1)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    x, y, z = (
        v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116
        for v in to_xyz @ red_green_blue / np.array([0.9505, 1.0, 1.089])
    )
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one: str, other: str, vision: str) -> float:
    return float(np.linalg.norm(seen(one, vision) - seen(other, vision)))


@MODES
@pytest.mark.parametrize("vision", VISION)
def test_classes_of_one_grade_keep_their_order(mode, vision):
    """Lightness grows from class to class, whatever the reader's colour vision."""
    for grade in ("good", "caution"):
        lightness = [seen(colour, vision)[0] for colour in palette(mode)[grade]]
        assert all(a + 2 < b for a, b in itertools.pairwise(lightness))


@MODES
@pytest.mark.parametrize("vision", VISION)
def test_neighbouring_classes_can_be_told_apart(mode, vision):
    """Two classes side by side differ by several just noticeable differences."""
    colours = palette(mode)
    for grade, least in (("good", 6), ("caution", 4)):
        for one, other in itertools.pairwise(colours[grade]):
            assert distance(one, other, vision) > least


@MODES
def test_uncertain_cells_have_fewer_and_paler_colours(mode):
    """Cells with caution have half the classes and less chroma, and noise has hardly any."""
    colours = palette(mode)
    assert len(colours["good"]) == 2 * len(colours["caution"]) > len(colours["noise"]) == 1

    def chroma(colour):
        return float(np.hypot(*seen(colour, "normal")[1:]))

    assert max(map(chroma, colours["caution"])) < max(map(chroma, colours["good"]))
    assert chroma(colours["noise"][0]) < min(map(chroma, colours["caution"]))
    assert distance(colours["noise"][0], GROUNDS[mode], "normal") > 5


@MODES
@pytest.mark.parametrize("vision", ["normal", "protanopia", "deuteranopia", "tritanopia"])
def test_differences_have_a_sign_that_everyone_sees(mode, vision):
    """Lower and higher differ in colour at each size, and both from a doubtful difference."""
    colours = palette(mode)["difference"]
    for lower, higher in zip(colours[:3], colours[:2:-1], strict=True):
        assert distance(lower, higher, vision) > 15
    for colour in colours:
        assert distance(colour, palette(mode)["unsure"][0], vision) > 10


def test_a_gradient_runs_from_end_to_end():
    """It has as many colours as asked for, and the ends are those of viridis."""
    assert gradient(3)[0] == "#440154"
    assert gradient(3)[-1] == "#fde725"
    assert len(gradient(256)) == 256


@MODES
def test_a_number_has_the_colour_of_its_class(mode):
    """Equal parts of the scale are a class each; numbers beyond it have the colour of its end."""
    colours = palette(mode)
    values = np.array([-3.0, 0.0, 2.49, 2.5, 9.99, 10.0, 99.0])
    for grade, places in (("good", [0, 0, 1, 2, 7, 7, 7]), ("caution", [0, 0, 0, 1, 3, 3, 3])):
        found = colours_of(values, [grade] * 7, (0.0, 10.0), mode)
        assert found == [colours[grade][place] for place in places]
    assert set(colours_of(values, ["noise"] * 7, (0.0, 10.0), mode)) == set(colours["noise"])
