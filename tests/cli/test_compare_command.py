"""`hexveil compare` and `hexveil roll-up`: what a recipient makes of folders, at no cost."""

import json
import re

import pytest


@pytest.mark.slow
def test_two_folders_are_compared_and_rolled_up(here, call):
    """Exit 0 with verdicts, what is covered and the folder; the ledger has no new entry."""
    for out, epsilon in (("before", "3"), ("after", "2")):
        made = call(
            "release", "run.toml", "--set", "release.accept_noise=true", "--epsilon", epsilon,
            "--out", out,
            "--set", "ledger.budget=9",
        )  # fmt: skip
        assert made.code == 0, made.err
    shown = call("compare", "before", "after", "--out", "changes")
    assert shown.code == 0, shown.err
    text = " ".join(shown.out.split())
    assert re.search(
        r"Changed \d cells? higher, \d cells? lower; of \d cells? it cannot be told", text
    )
    assert "costs no privacy beyond theirs" in text
    assert "Not covered: which vehicles reported" in text
    assert (here / "changes" / "comparison.html").is_file()
    said = json.loads(call("compare", "before", "after", "--one-cell", "--json").out)
    assert [cell["cell"] for cell in said["cells"]] == ["all"]
    rolled = call("roll-up", "before", "--resolution", "3")
    assert rolled.code == 0, rolled.err
    assert "Average" in rolled.out
    said = json.loads(call("roll-up", "before", "--one-cell", "--json").out)
    assert said["cells"][0]["cells"] == 3
    assert call("roll-up", "before", "--one-cell", "--out", "all").code == 0
    assert (here / "all" / "roll-up.json").is_file()


@pytest.mark.slow
def test_wrong_use_is_a_sentence(here, call):
    """Exit 2, with the place and the remedy, and nothing is written."""
    assert call("release", "run.toml", "--set", "release.accept_noise=true").code == 0
    for words, message in (
        (("compare", "map", "map"), "both are the same release"),
        (("compare", "map", "."), "no manifest.json"),
        (("compare", "map", "map", "--out", "map"), "map exists, and is never written into"),
        (("roll-up", "map", "--one-cell", "--context", "x.json"), "name one (--out FOLDER)"),
        (("roll-up", "map"), "needs a coarser grid"),
        (("roll-up", "map", "--resolution", "fine"), "--resolution must be a number"),
        (("roll-up", "map", "--timeslot", "1d"), "no timeslots"),
    ):
        refused = call(*words)
        assert refused.code == 2, words
        assert message in " ".join(refused.err.split())
    assert {path.name for path in here.iterdir() if path.is_dir()} == {"map"}
