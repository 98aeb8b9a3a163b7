"""`hexveil plan`: short, narrow, and in words."""

import json
import re

import pytest


def test_a_plan_is_short_and_in_words(here, call):
    """At most 25 lines of at most 100 characters, without a Greek letter; nothing is spent."""
    said = call("plan", "run.toml")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 100
    assert not re.search("[\u0370-\u03ff]", said.out)
    labels = ("Cells", "Price", "Counting cells", "Error to expect", "Worth it", "A month")
    for label in (*labels, "One step coarser"):
        assert any(line.startswith(label) for line in lines)
    assert "2.72 times" in said.out
    assert sorted(path.name for path in here.iterdir()) == ["buses.parquet", "run.toml"]


@pytest.mark.parametrize("unit", ["user", "user-day", "user-week"])
@pytest.mark.parametrize("epsilon", ["0.001", "1", "20"])
def test_a_plan_stays_short_when_it_warns(here, call, unit, epsilon):
    """A warning, another unit of privacy or price keeps the plan within 25 lines."""
    said = call(
        "plan", "run.toml", "--unit", unit, "--epsilon", epsilon, "--timeslot", "1h",
        "--timezone", "Asia/Kolkata", "--slot", "pooled",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert len(said.out.splitlines()) <= 25
    assert ("too fine" in said.out) == (epsilon == "0.001")
    whom = {"user": "one user's readings", "user-day": "of one day", "user-week": "of one week"}
    assert whom[unit] in " ".join(said.out.split())
    assert said.err == ""


def test_json(here, call):
    """--json prints the same for machines."""
    said = json.loads(call("plan", "run.toml", "--json").out)
    assert said["cells"] == 3
    assert said["users"] == 400
    assert said["records"] == 1200
    assert said["epsilon"] <= said["epsilon_asked"] == 1
    assert said["supported"]
    assert said["warning"] is None
    assert said["coarser"]["cells"] <= 3


def test_a_plan_needs_a_price(here, call):
    """Without epsilon it is asked for."""
    (here / "run.toml").write_text((here / "run.toml").read_text().replace("epsilon = 1", ""))
    said = call("plan", "run.toml")
    assert said.code == 2
    assert said.err == (
        "hexveil: epsilon (in [plan], or --epsilon) is needed: the most that any user may lose; or "
        "target_error (in [plan], or --target-error): the errors to stay within.\n"
    )


def test_labels_have_no_coarser_grid(here, call):
    """With labels the plan says what a cell is, and nothing of resolutions."""
    text = (here / "run.toml").read_text()
    text = text.replace('resolution = 6\ntimeslot = "none"', 'labels = ["lat"]')
    (here / "run.toml").write_text(text)
    said = call("plan", "run.toml")
    assert said.code == 0, said.err
    assert "combinations of lat" in said.out
    assert "coarser" not in said.out
