"""Pages and README.txt in other languages: whole, verified, and without English words."""

import html.parser
import json
import re
from importlib import resources

import pytest

import hexveil as hv
from attack import folder_kinds
from golden_releases import fixed_noise
from hexveil.cli import main

TEMPLATES = resources.files("hexveil") / "publishing" / "templates"
LANGUAGES = pytest.mark.parametrize("language", ["de", "hi", "pl"])
ENGLISH = {"the", "of", "and", "is", "are", "with", "at", "most", "cells", "users", "records"}
"""Words that no other of these languages has."""
VEHICLE = {"de": "Fahrzeug", "hi": "वाहन", "pl": "pojazd"}
NAMED = re.compile(r"cells\.[a-z]+(-metadata\.json)?|[\w.]+\.(json|jsonld|npy|html|parquet|csv)")


def macros(text):
    """Return the names of a template's macros."""
    return set(re.findall(r"{%-? macro (\w+)", text))


def placeholders(text):
    """Return the places of a label that scripts fill."""
    return set(re.findall(r"{(\w+)}", text))


@LANGUAGES
def test_a_language_has_every_sentence(language):
    """Each file stands in for an English one, with its macros and labels."""
    folder = TEMPLATES / "languages" / language
    files = {
        f"{place.name}/{one.name}" if place != folder else one.name: one
        for place in (folder, *(sub for sub in folder.iterdir() if sub.is_dir()))
        for one in place.iterdir()
        if one.is_file()
    }
    assert len(files) == 33
    for name, file in files.items():
        text = file.read_text(encoding="utf-8")
        if name == "readme_promise.md":
            continue
        english = TEMPLATES.joinpath(*name.split("/")).read_text(encoding="utf-8")
        if name.endswith("summary.html"):
            assert ("vehicle" in english) == (VEHICLE[language] in text), name
        assert macros(text) >= macros(english) - {"unit_in_words"}, name  # of promise.txt alone
        if name.endswith(".json"):
            ours, theirs = json.loads(text), json.loads(english)
            assert ours.keys() == theirs.keys()
            for key, label in theirs.items():
                assert placeholders(ours[key]) <= placeholders(label), key
                assert bool(ours[key]) == bool(label), key


class _Sentences(html.parser.HTMLParser):
    """The visible words of a page, but for the mathematics and the map's names."""

    def __init__(self):
        super().__init__()
        self.words, self.hidden = [], 0

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in ("script", "style", "dl") or ("class", "credit") in attrs

    def handle_endtag(self, tag):
        self.hidden = max(0, self.hidden - (tag in ("script", "style", "dl", "p")))

    def handle_data(self, data):
        if not self.hidden:
            self.words += re.findall(r"[A-Za-z]+", NAMED.sub("", data))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["means", "interval", "distribution", "presence", "presence-shapes", "columns"]
)
def test_a_folder_speaks_each_language(tmp_path, capsys, kind):
    """Page and README.txt have no English sentence, and verify makes the same texts again."""
    with fixed_noise():
        release = hv.load(folder_kinds.make(tmp_path, kind))
    for language in ("de", "hi", "pl"):
        folder = release.write(tmp_path / language, language=language)
        assert main(["verify", str(folder)]) == 0, capsys.readouterr().err
        page = _Sentences()
        text = (folder / "report.html").read_text("utf-8")
        page.feed(text)
        assert f'<html lang="{language}">' in text
        assert ENGLISH.isdisjoint(page.words), (language, ENGLISH & set(page.words))
        # The meaning of each column is English, under its own heading.
        promise = (folder / "README.txt").read_text("utf-8").partition("cells.parquet")[0]
        said = set(re.findall(r"[A-Za-z]+", NAMED.sub("", promise)))
        assert ENGLISH.isdisjoint(said), (language, ENGLISH & said)
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        manifest["language"] = "pl" if language == "de" else "de"
        (folder / "manifest.json").write_text(json.dumps(manifest))
        assert main(["verify", str(folder)]) != 0
        capsys.readouterr()


def test_an_unknown_language_is_refused(city, tmp_path):
    """Before anything is written, with the languages that there are."""
    with pytest.raises(hv.InputError, match="one of en, de, hi, pl, got 'xx'"):
        city.write(tmp_path / "map", language="xx")
    assert list(tmp_path.iterdir()) == []
