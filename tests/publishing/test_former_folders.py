"""Folders of schema version 4 are checked, loaded and compared as those of today.

tests/golden_former has two that such a version wrote, of invented records: one of two value
columns, and a map with private presence.
"""

import json
import random
import shutil
from pathlib import Path

import pytest

import hexveil as hv
from publishing.releases import digest_of, forge_json, problems_of, verdict_of

FORMER = Path(__file__).resolve().parents[1] / "golden_former"
KINDS = ("moments", "presence-labels")


def copied(kind, place):
    """Return a copy of a former folder."""
    return shutil.copytree(FORMER / kind, place / "map")


def seal(place):
    """Write the receipts anew, those of folders inside first."""
    for file in sorted(place.rglob("receipt.json"), key=lambda path: -len(path.parts)):
        content = json.loads(file.read_text("utf-8"))
        content["files"] = {name: digest_of(file.parent / name) for name in content["files"]}
        file.write_text(json.dumps(content), "utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_a_former_folder_is_verified_and_read(kind, tmp_path):
    """Its numbers are those of a release of today, which is written, verified and compared."""
    verdict = verdict_of(FORMER / kind)
    assert verdict["problems"] == []
    assert any("another version wrote them" in text for text in verdict["unknown"])
    made = hv.load(FORMER / kind)
    assert hv.verify(FORMER / kind) == made.manifest
    again = made.write(tmp_path / "map")
    assert problems_of(again) == ()
    assert hv.load(again).table.equals(made.table)
    assert len(hv.roll_up(FORMER / kind, resolution="all", timeslot="all")) == 1


def field(name, change):
    """Return a change of a JSON file, under receipts that agree."""
    return lambda place: [forge_json(name, change)(place), seal(place)]


CHANGES = {
    "moments": (
        (field("manifest.json", lambda m: m.update(kind="columns")), "a folder for each value"),
        (field("manifest.json", lambda m: m.pop("losses")), "breaks its schema"),
        (
            field("manifest.json", lambda m: m["cells"][0]["noised"][0].update(scale=1.0)),
            "mean_scale does not follow",
        ),
    ),
    "presence-labels": (
        (field("manifest.json", lambda m: m.pop("model")), "breaks its schema"),
        (field("manifest.json", lambda m: m.update(more=1)), "breaks its schema"),
        (
            field("manifest.json", lambda m: m["guarantee"].update(epsilon_spent="1")),
            "add up to more",
        ),
        (field("manifest.json", lambda m: m["plan"].update(open_from=1.0)), "open_from"),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_former_folder_is_refused(kind, tmp_path):
    """What was changed, taken away or added is said by name, also under a new receipt."""
    for number, (change, words) in enumerate(CHANGES[kind]):
        place = copied(kind, tmp_path / f"{number}")
        change(place)
        found = " ".join(problems_of(place))
        assert words in found, (number, found)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_field_of_a_former_manifest_ends_in_a_traceback(kind, tmp_path):
    """A field that is missing or of another type is a sentence, or nothing."""
    place, chance = copied(kind, tmp_path), random.Random(4)  # noqa: S311  repeatable
    for file in sorted(place.rglob("manifest.json")):
        whole = file.read_text("utf-8")
        content = json.loads(whole)
        for key in content:
            forged = dict(content)
            change = chance.choice(("gone", None, "x", [], {}, 7, [1, "x"]))
            forged[key] = change
            if change == "gone":
                del forged[key]
            file.write_text(json.dumps(forged), "utf-8")
            seal(place)
            assert all(map(str, problems_of(place)))
        file.write_text(whole, "utf-8")
        seal(place)
