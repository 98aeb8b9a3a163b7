"""The dossier: whole, true to its manifest, safe to show, and without a legal conclusion."""

import json
import math
import re
import shutil
from fractions import Fraction
from pathlib import Path

import pytest

import hexveil as hv
from publishing.releases import called, digest_of, release_of, said, seal
from publishing.setting import dataset_of, hexagons, labels, released

ROOT = Path(__file__).resolve().parents[2]
SPANS = {"user": (1, 7, 30, 365), "user-day": (1, 7, 30, 365), "user-week": (1, 4, 13, 52)}
"""Releases, days or weeks whose losses are added up."""
HEADINGS = [
    "What is protected, and from whom", "The promise", "What is not protected", "Residual risks",
    "Assumptions", "Under the headings of GDPR Article 35(7)", "Notice for the public",
    "Losses of the units", "By the subjects of NIST SP 800-226", "Which test checks what",
    "Files and software", "Signature",
]  # fmt: skip
CONCLUSIONS = re.compile(
    r"complian|\bcompl(?:y|ies)\b|anonym|satisf|lawful|\blegally\b|\bmeets?\b|fulfil|conform|"
    r"\bcertif|adequate|sufficient|acceptable|permitted|allowed|\bsafe\b|\blow risk|\bno risk|"
    r"negligible|approved|guarantees that|not personal data|pseudonym",
    re.IGNORECASE,
)


BOTH = {"statistics": ("mean", "variance", "sd"), "epsilon": 20}
WARDS = hv.Labels("route", "ward"), {"route": ["1", "1", "2"], "ward": ["a", "b", "a"]}
KINDS = {
    "user": ({}, {}),
    "user-day": ({"privacy_unit": "user-day", "top": 2}, {}),
    "user-week": ({"privacy_unit": "user-week"}, {}),
    "labels": ({"cells": labels(3)}, {}),
    "wards": ({"cells": WARDS, "privacy_unit": "user-day"}, {}),
    "constant": ({"privacy_unit": "user-day"}, {"epsilon": "0.0001"}),
    "variance": ({"privacy_unit": "user-day", "squares": 9_999}, BOTH),
}
"""What is read, and what is planned."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return a folder of each kind."""
    home, made = tmp_path_factory.mktemp("folders"), {}
    for kind, (facts, asked) in KINDS.items():
        release = released(fleet(**facts), **{"epsilon": "0.2"} | asked)
        made[kind] = release.write(home / kind)
    return made


def fleet(**facts):
    """Return forty buses in three hexagons."""
    given = {"cells": hexagons(3), "value": "speed", "value_unit": "km/h"} | facts
    return dataset_of([[3, 2, 1]] * 40, 30, **given)


def dossier(folder):
    """Return the dossier of a folder as the command prints it."""
    return called("dossier", folder)


def sections_of(text):
    """Return the text of each section by its title."""
    _, *parts = re.split("^## ", text, flags=re.MULTILINE)
    return dict(part.split("\n", 1) for part in parts)


def rows_of(text):
    """Return the rows of the last table of a text, without its head."""
    *_, table = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    return [
        [one.strip() for one in line.strip("| ").split(" | ")] for line in table.splitlines()[2:]
    ]


WORDS = {
    "constant": ("No value is read", "was not booked"),
    "variance": ("Average, variance and standard deviation of speed (km/h)",),
}


@pytest.mark.parametrize("kind", KINDS)
def test_it_has_every_section_and_draws_no_legal_conclusion(kind, folders):
    """For every kind of release the sections stand in their order, none of them empty."""
    text = dossier(folders[kind])
    made = sections_of(text)
    assert list(made) == HEADINGS
    assert [title for title, body in made.items() if not body.strip()] == []
    parts = {title: re.findall("^### (.*)$", body, re.MULTILINE) for title, body in made.items()}
    assert [part[:3] for part in parts[HEADINGS[5]]] == ["(a)", "(b)", "(c)", "(d)"]
    assert len(parts[HEADINGS[8]]) == 9
    assert "None" not in text
    assert [row for row in text.splitlines() if row[:1] == "|" != row[-1]] == []
    assert CONCLUSIONS.findall(text) == []
    assert [word for word in WORDS.get(kind, ()) if word not in text] == []
    assert (len(rows_of(made[HEADINGS[1]])) == 1) == (kind == "constant")
    # Each file that is said to check something is in the project and has tests.
    files = [row[1].replace("\\", "") for row in rows_of(made[HEADINGS[9]])]
    assert [file for file in files if "\ndef test_" not in (ROOT / file).read_text()] == []


@pytest.mark.parametrize("unit", SPANS)
def test_factors_are_those_of_the_loss_and_of_its_multiples(unit, folders):
    """The table has the release and k of its unit's owner, each with exact loss and factor.

    What an undecided insider becomes sure of is rounded up, by less than a tenth in 100.
    """
    rows = rows_of(sections_of(dossier(folders[unit]))[HEADINGS[1]])
    loss = Fraction(said(folders[unit])["guarantee"]["epsilon_spent"])
    assert loss > 0
    assert len(rows) == len(SPANS[unit])
    for k, (label, epsilon, change, certainty) in zip(SPANS[unit], rows, strict=True):
        assert Fraction(epsilon) == k * loss
        assert k == 1 or label.startswith(f"{k} ")
        stated = re.search(r"[\d,.]+", change)
        if k * loss < 6:
            factor = math.exp(k * loss)
            assert factor <= float(stated[0].replace(",", "")) < 1.01 * factor
            share = 100 * factor / (1 + factor)
            assert share <= float(re.search(r"[\d.]+", certainty)[0]) < share + 0.1


@pytest.mark.parametrize("unit", SPANS)
def test_facts_are_the_manifests(unit, folders):
    """Unit, neighbours, losses, assumptions, place in the ledger and checksum are said."""
    stated = said(folders[unit])
    text = dossier(folders[unit])
    guarantee = stated["guarantee"]
    for fact in (
        guarantee["neighbours"],
        guarantee["not_protected"],
        *guarantee["assumptions"],
        f"| units | {stated['losses']['units']} |",
        f"| ledger entry | {stated['ledger']['entry']} |",
        stated["ledger"]["chain"],
        stated["request"],
        digest_of(folders[unit] / "manifest.json"),
        "(0 here)",
        "speed, clamped to the bounds from 0 to 60 km/h, in steps of 1",
    ):
        assert fact in text, fact
    left_out = "Cells left out by the selection, and so without a number: 1."
    assert (left_out in text) == (unit == "user-day")
    assert "agrees" in text
    assert "[to be filled in by the controller: " in text


def test_the_page_names_every_section():
    """The page about dossiers has a row for each section."""
    page = (ROOT / "docs" / "how-to" / "dossier.md").read_text(encoding="utf-8")
    assert [title for title in HEADINGS if f"| {title} |" not in page] == []


def test_only_a_folder_that_verifies_has_a_dossier(tmp_path):
    """A changed number, a file more and a missing receipt are refused, each in one sentence."""
    folder = release_of(tmp_path / "made", "means").write(tmp_path / "map")
    assert digest_of(folder / "manifest.json") in dossier(folder)
    for number, (name, change) in enumerate(CHANGES.items()):
        copy = shutil.copytree(folder, tmp_path / f"copy{number}")
        change(copy)
        with pytest.raises(hv.InputError, match=name) as caught:
            dossier(copy)
        assert str(caught.value).count("\n") == 0


def lower_the_loss(folder):
    """State a smaller loss, in a manifest that the receipt fits."""
    said = json.loads((folder / "manifest.json").read_text("utf-8"))
    said["guarantee"]["epsilon_spent"] = "0.01"
    (folder / "manifest.json").write_text(json.dumps(said), "utf-8")
    seal(folder)


CHANGES = {
    "epsilon_spent": lower_the_loss,
    "cells.csv was changed": lambda folder: (folder / "cells.csv").write_text("not looked at"),
    "receipt.json is missing": lambda folder: (folder / "receipt.json").unlink(),
    "has no manifest": lambda folder: (folder / "manifest.json").unlink(),
    "manifest.json": lambda folder: (folder / "manifest.json").write_bytes(b"[" * 100_000),
}
