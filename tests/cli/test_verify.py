"""`hexveil verify`: a recipient's look at a release folder."""

import json


def test_a_release_passes_and_a_changed_one_does_not(here, call):
    """Exit 0 with what was checked and what cannot be; exit 2 with what was changed."""
    assert call("release", "run.toml", "--accept-noise").code == 0
    good = call("verify", "map")
    assert good.code == 0, good.err
    assert "Checked" in good.out
    assert "of buses, entry " in good.out
    assert "Not checked" in good.out
    page = here / "map" / "report.html"
    page.write_text(page.read_text() + " ")
    bad = call("verify", "map")
    assert bad.code == 2
    assert "report.html was changed" in bad.out
    said = json.loads(call("verify", "map", "--json").out)
    assert len(said["problems"]) == 1


def test_what_is_no_release_is_a_sentence(here, call):
    """A folder of something else is wrong use."""
    said = call("verify", ".")
    assert said.code == 2
    assert "no manifest.json" in said.err
