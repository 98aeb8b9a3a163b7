"""Tests of `hexveil_research.papers.running` and of the catalogue."""

import re

from hexveil_research.papers import catalogue, running, study_folders
from hexveil_research.papers.study import Claim, Outcome, Setting, Study

FIGURES = {"iot": 5, "rw": 2, "comp": 8, "wc": 3}


def study(name, calls, seconds=1.0):
    """Return a study that writes down that it was made."""

    def make(setting):
        calls.append(name)
        setting.tell(0.5)
        return Outcome((), (Claim("WC", "here", "it is so", "seen", holds=True),))

    return Study(name, "WC", "A study", make, seconds=seconds)


def run(studies, out, monkeypatch, **more):
    """Run studies that stand in the catalogue's place."""
    monkeypatch.setattr(catalogue, "STUDIES", tuple(studies))
    return running.run(studies, Setting(trials=2), out, **more)


def test_the_catalogue_has_every_figure():
    """All 18 figures of the four papers are there, and each name is used once."""
    names = [one.name for one in catalogue.STUDIES]
    figures = {f"{paper}:fig{k}" for paper, many in FIGURES.items() for k in range(1, many + 1)}
    assert len(figures) == 18
    assert figures <= set(names)
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+:[a-z]+\d*", name) for name in names)
    assert all(one.place and one.title and one.seconds > 0 for one in catalogue.STUDIES)


def test_what_is_made_is_kept(tmp_path, monkeypatch):
    """A second run makes nothing again and finds the same."""
    calls = []
    studies = [study("wc:a", calls), study("wc:b", calls, seconds=9)]
    first = run(studies, tmp_path, monkeypatch)
    assert calls == ["wc:b", "wc:a"]
    assert [(one.study.name, one.reused) for one in first] == [("wc:a", False), ("wc:b", False)]
    again = run(studies, tmp_path, monkeypatch)
    assert [one.reused for one in again] == [True, True]
    assert len(calls) == 2
    assert (tmp_path / study_folders.CLAIMS).read_text().count("it is so") == 2
