"""Where a map is of, and when: the period and the publisher under the titles."""

import pyarrow as pa
import pytest

from hexveil.report.origin import describe_origin

HEXAGONS = {"kind": "hexagons", "timezone": "Asia/Kolkata", "slot": "pooled"}
POOLED = pa.table({"slot": ["06:00", "07:00"]})


@pytest.mark.parametrize(
    ("table", "manifest", "words", "brief"),
    [
        (
            POOLED,
            {"selection": {"select": "min_users 10; dates 2025-03-05 to 2025-03-05"}},
            "Records of Wednesday 5 March 2025 (Asia/Kolkata)",
            "5 March 2025",
        ),
        (
            pa.table({"slot": ["2024-12-31T23:00", "2025-01-02T00:00"]}),
            {"selection": {}},
            "Records of Tuesday 31 December 2024 to Thursday 2 January 2025 (Asia/Kolkata)",
            "31 December 2024 to 2 January 2025",
        ),
        (
            POOLED,
            {"selection": {}, "catalogue": {"temporal": ["2025-03-03", "2025-03-09"]}},
            "Records of Monday 3 March to Sunday 9 March 2025 (Asia/Kolkata)",
            "3 March to 9 March 2025",
        ),
        (POOLED, {"selection": {}}, "The publisher declared no period of the records", ""),
    ],
)
def test_the_period_is_that_of_slots_dates_or_the_declaration(table, manifest, words, brief):
    """Calendar slots come first, then selected dates, then what the publisher declares."""
    origin = describe_origin(table, {"grid": HEXAGONS, **manifest})
    assert (origin["period"], origin["brief_period"]) == (words, brief)


def test_selected_dates_have_the_clock_of_the_selection():
    """Labels have no time zone of their own."""
    selection = {"select": "dates 2025-03-05 to 2025-03-05", "timezone": "Europe/Warsaw"}
    origin = describe_origin(
        pa.table({"cell": ["a"]}), {"grid": {"kind": "labels"}, "selection": selection}
    )
    assert origin["period"].endswith("5 March 2025 (Europe/Warsaw)")


def test_publisher_licence_and_contact_are_named_as_far_as_they_are_stated():
    """Nothing is guessed, and nothing stated is left out."""
    stated = {"publisher": "City of Surat", "license": "CC-BY-4.0", "contact": "data@example.org"}
    manifest = {"grid": HEXAGONS, "selection": {}, "catalogue": stated}
    assert describe_origin(POOLED, manifest)["publisher"] == (
        "Published by City of Surat · Licence: CC-BY-4.0 · Contact: data@example.org"
    )
    manifest["catalogue"] = {"contact": "data@example.org"}
    assert describe_origin(POOLED, manifest)["publisher"] == "Contact: data@example.org"
    assert describe_origin(POOLED, manifest | {"catalogue": {}})["publisher"] == ""
