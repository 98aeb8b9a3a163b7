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


def test_methods_are_compared_in_one_table(here, call):
    """--compare prints each method's price, errors and certificate."""
    said = call("plan", "run.toml", "--compare")
    assert said.code == 0, said.err
    for word in ("joint, mean", "joint, max", "per-cell", "clip-user", "composition", "%"):
        assert word in said.out
    found = json.loads(call("plan", "run.toml", "--compare", "--json").out)["methods"]
    assert [line["method"] for line in found][2:] == ["per-cell", "clip-user", "composition"]
    assert all(line["epsilon"] <= 1 for line in found)
    assert found[1]["gap"] < 0.01


def test_a_target_gives_the_price(here, call):
    """--target-error in place of epsilon; a target per statistic; the certificate is in words."""
    text = (here / "run.toml").read_text()
    (here / "run.toml").write_text(text.replace("epsilon = 1", 'target_error = "2%"'))
    one = json.loads(call("plan", "run.toml", "--json").out)
    assert one["max_error"] <= 0.02 * 65
    assert one["certificate"]["about"] == "loss"
    assert one["certificate"]["lower_bound"] <= one["epsilon"]
    chosen = ("--statistics", "mean,sd", "--target-error", "mean=1,variance=2%")
    two = json.loads(call("plan", "run.toml", *chosen, "--json").out)
    assert two["max_error"]["mean"] <= 1
    assert two["max_error"]["variance"] <= 0.02 * 65**2
    assert "no plan of its class has a price" in " ".join(call("plan", "run.toml").out.split())


def test_a_saved_plan_is_released_after_review(here, call):
    """The folder is named; releasing it books its price, and other records are refused."""
    said = call("plan", "run.toml", "--save", "reviewed")
    assert said.code == 0, said.err
    assert "reviewed" in said.out
    done = call("release", "run.toml", "--from-plan", "reviewed")
    assert done.code == 0, done.err
    assert "as saved in reviewed" in done.out
    again = call("release", "run.toml", "--out", "map2")
    assert "at no cost" in " ".join(again.out.split())
    other = call("release", "run.toml", "--from-plan", "reviewed", "--min-users", "1",
                 "--resolution", "5", "--out", "map3")  # fmt: skip
    assert other.code == 2
    assert "the plan was made for other records" in other.err
    assert not (here / "map3").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--target-error", "1"), "cannot be combined"),
        (("--statistics", "mode"), "statistics must be one or more of mean, variance, sd"),
        (("--split", "1.5", "--method", "per-cell", "--statistics", "mean,sd"), "between 0 and 1"),
        (("--mechanism", "Baseline"), "mechanism goes with method"),
        (("--method", "magic"), "method must be one of"),
        (("--objective", "median"), "objective must be one of"),
        (("--save", "nowhere/deep"), ""),
    ],
)
def test_a_plan_without_meaning_is_one_sentence(here, call, options, words):
    """Exit 2, one line, nothing written."""
    before = sorted(here.iterdir())
    said = call("plan", "run.toml", *options)
    assert said.code == 2
    assert words in said.err
    assert said.err.count("\n") == 1
    assert sorted(here.iterdir()) == before
