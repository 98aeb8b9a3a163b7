"""The dossier: whole, true to its manifest, safe to show, and without a legal conclusion."""

import json
import math
import re
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hexveil as hv
from hexveil.model.cells import CellTable
from hexveil.publishing import receipt
from hexveil.publishing.dossier import SPANS, describe, dossier, insider_certainty
from hexveil.publishing.markup import clean_texts, items_of
from hexveil.report.promise_wording import (
    factor_words,
    probability_factor,
)
from publishing.releases import release_of, said, seal, statements_of
from publishing.setting import dataset_of, hexagons, labels, manifest_of, plan_of

ROOT = Path(__file__).resolve().parents[2]
PLACE = {"entry": 7, "chain": "ab" * 32}
CHECKSUM = "cd" * 32
UNITS = ("user", "user-day", "user-week")
HEADINGS = [
    "What is protected, and from whom",
    "The promise",
    "What is not protected",
    "Residual risks",
    "Assumptions",
    "Under the headings of GDPR Article 35(7)",
    "Notice for the public",
    "Losses of the units",
    "By the subjects of NIST SP 800-226",
    "Which test checks what",
    "Files and software",
    "Signature",
]
CONCLUSIONS = re.compile(
    r"complian|\bcompl(?:y|ies)\b|anonym|satisf|lawful|\blegally\b|\bmeets?\b|fulfil|conform|"
    r"\bcertif|adequate|sufficient|acceptable|permitted|allowed|\bsafe\b|\blow risk|\bno risk|"
    r"negligible|approved|guarantees that|not personal data|pseudonym",
    re.IGNORECASE,
)


def said_of(privacy_unit="user-day", *, kept=1, noise=0.7, cells=None, ledger=PLACE, **request):
    """Return the statements of a release, as they are written beside it."""
    data = dataset_of(
        np.array([[3, 2, 1], [2, 2, 0], [1, 4, 0], [5, 1, 0]]),
        cells=cells or hexagons(3),
        privacy_unit=privacy_unit,
        value="speed",
        value_unit="km/h",
        rules={"records read": 30, "unparsable": 2, "cells left out by selection": 4},
        identity={"source": "buses.parquet", "columns": "user=bus", "drop_values": "none"},
    )
    plan = plan_of(data, kept, noise, **request)
    said = manifest_of("buses", data, plan, ledger)
    return statements_of(json.loads(json.dumps(said, allow_nan=False)))


def markdown_of(said):
    """Return the dossier of a manifest as Markdown."""
    return made_of(said).to_markdown()


def made_of(said):
    """Return the dossier of a manifest, as of a folder that was verified."""
    return describe(clean_texts(said), pa.table({}), CHECKSUM)


KINDS = {
    "user": said_of("user"),
    "user-day": said_of("user-day"),
    "user-week": said_of("user-week"),
    "labels": said_of("user", cells=labels(3)),
    "pooled": said_of(cells=CellTable(hv.Labels("route", "ward"), labels={
        "route": ("1", "1", "2"), "ward": ("a", "b", "a")})),
    "constant": said_of(kept=0, ledger=None),
    "variance": said_of(statistics=("mean", "variance", "sd"), rows={
        "variance_cap": np.array([1, 1, 0]), "variance_noise": np.array([3.0, 3.0, 0.0])}),
}  # fmt: skip


WORDS = {
    "constant": ("No value is read", "was not booked"),
    "variance": ("Average, variance and standard deviation of speed (km/h)",),
}


@pytest.mark.parametrize("kind", KINDS)
def test_it_has_every_section_and_draws_no_legal_conclusion(kind):
    """For every kind of release the sections stand in their order, none of them empty."""
    made = made_of(KINDS[kind])
    assert [part.title for part in made.sections] == HEADINGS
    assert all(part.blocks for part in made.sections)
    assessment, subjects, evidence = (made.sections[number] for number in (5, 8, 9))
    assert [part.title[:3] for part in assessment.sections] == ["(a)", "(b)", "(c)", "(d)"]
    assert len(subjects.sections) == 9
    text = made.to_markdown()
    assert "None" not in text
    assert CONCLUSIONS.findall(text) == []
    assert [word for word in WORDS.get(kind, ()) if word not in text] == []
    assert (len(items_of(made.sections[1].blocks[-1])) == 2) == (kind == "constant")
    # Each file that is said to check something is in the project and has tests.
    files = [row[1] for row in items_of(evidence.blocks[1])[1:]]
    assert [file for file in files if "\ndef test_" not in (ROOT / file).read_text()] == []


@pytest.mark.parametrize("unit", UNITS)
def test_factors_are_those_of_the_loss_and_of_its_multiples(unit):
    """The table has the release and k of its unit's owner, each with its loss and factor."""
    said = KINDS[unit]
    section = made_of(said).sections[1]
    rows = items_of(section.blocks[-1])[1:]
    loss = Fraction(said["guarantee"]["epsilon_spent"])
    assert loss > 0
    times = (1, *SPANS[unit])
    assert len(rows) == len(times)
    for k, (label, epsilon, change, _) in zip(times, rows, strict=True):
        assert (
            k * loss - Fraction(1, 10**9)
            <= Fraction(epsilon.replace(",", ""))
            <= k * loss * Fraction(101, 100)
        )
        assert change == factor_words(probability_factor(k * loss))
        assert k == 1 or label.startswith(f"{k} ")


@given(st.floats(0, 6.9))
def test_the_certainty_of_an_insider_is_never_understated(loss):
    """What an undecided insider becomes sure of is rounded up, by less than a tenth in 100."""
    factor = math.exp(loss)
    share = Fraction(factor) / (1 + Fraction(factor)) * 100
    said = Fraction(insider_certainty(factor))
    assert share <= said < share + Fraction(1, 10)


@pytest.mark.parametrize("unit", UNITS)
def test_facts_are_the_manifests(unit):
    """Unit, neighbours, losses, assumptions, place in the ledger and checksum are said."""
    said = KINDS[unit]
    text = markdown_of(said)
    guarantee = said["guarantee"]
    for fact in (
        guarantee["neighbours"],
        guarantee["not_protected"],
        *guarantee["assumptions"],
        f"| units | {said['losses']['units']} |",
        f"| ledger entry | {PLACE['entry']} |",
        PLACE["chain"],
        said["request"],
        CHECKSUM,
        "Cells left out by the selection, and so without a number: 4.",
        "(2 here)",
        "speed, clamped to the bounds from 0 to 60 km/h, in steps of 1",
    ):
        assert fact in text, fact
    assert "agrees" in text
    assert "[to be filled in by the controller: " in text


def test_the_page_names_every_section():
    """The page about dossiers has a row for each section."""
    page = (ROOT / "docs" / "how-to" / "dossier.md").read_text(encoding="utf-8")
    assert [title for title in HEADINGS if f"| {title} |" not in page] == []


def test_only_a_folder_that_verifies_has_a_dossier(tmp_path):
    """A changed number, a file more and a missing receipt are refused, each in one sentence."""
    folder = release_of(tmp_path / "made", "means").write(tmp_path / "map")
    text = dossier(folder).to_markdown()
    assert "error (average): " in text
    assert receipt.file_digest(folder / "manifest.json") in text
    checksum, table = receipt.file_digest(folder / "manifest.json"), pa.table({})
    assert text == describe(clean_texts(said(folder)), table, checksum).to_markdown()
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
