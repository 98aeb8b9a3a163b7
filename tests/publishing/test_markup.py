"""Documents: text in, Markdown and plain text out that show the same text.

Names of a data set, of its value and of its version are a holder's; the dossier is Markdown,
README.txt is text.
"""

import copy
import html
import itertools
import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from publishing.releases import called, release_of

READER = MarkdownIt("commonmark").enable("table")
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1)


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """Return a function that writes a release whose names are a text, and returns its folder."""
    home = tmp_path_factory.mktemp("named")
    release = release_of(home / "made", "means")
    numbers = iter(range(10_000))

    def written(text):
        manifest = copy.deepcopy(release.manifest)
        manifest["dataset"]["name"] = text
        manifest["components"][0]["dataset"] |= {"value": text, "version": text}
        return replace(release, manifest=manifest).write(home / f"{next(numbers)}")

    return written


def shown(text):
    """Return text as HTML writes it."""
    return html.escape(text, quote=False).replace('"', "&quot;")


@pytest.mark.slow
@given(st.lists(TEXTS, min_size=1, max_size=3).map(" ".join))
@example("# a")
@example("12) b")
@example("- c")
@example("---")
@example("===")
@example("a\\|b")
@example("<!-- d -->")
@example("_e_ f_g __h__ *i*")
@example("&amp; \\& &#65;")
@example("[x]: y")
@example("~~~ z")
@example("] # a")
def test_any_text_is_shown_as_it_is(named, text):
    """A cell and an item of any text hold that text and nothing else; no other mark is made."""
    page, seen = (READER.render(called("dossier", named(one))) for one in (text, "plain"))
    assert f"<td>data set</td>\n<td>{shown(text)}</td>" in page
    assert re.search(f"<li>[^<]*{re.escape(shown(text))}, clamped to the bounds", page)
    for tag in ("h1", "h2", "h3", "p", "li", "td", "em", "strong", "code", "a", "hr"):
        assert page.count(f"<{tag}>") == seen.count(f"<{tag}>")


@pytest.mark.parametrize("text", ["two\nlines", "x\x1b[31m", "\u202eabc", "a\u200b\u2066b"])
def test_what_is_invisible_or_turns_the_text_is_not_shown(named, text):
    """A name is on one line, without what moves a cursor or hides."""
    said = called("dossier", named(text))
    assert not set(said) & {"\x1b", "\u202e", "\u200b", "\u2066"}
    assert len(said.splitlines()) == len(called("dossier", named("plain")).splitlines())


@pytest.mark.parametrize("name", ["file_name", "tests/a_b/test_c.py", "मुंबई\u200dक", "3.5 km", "-5"])
def test_plain_names_are_left_alone(named, name):
    """What Markdown does not read as a mark stays readable in the raw text."""
    assert f"| data set | {name} |" in called("dossier", named(name))


def test_addresses_are_no_links(named):
    """Readers that turn addresses into links find none."""
    said = called("dossier", named("see http://a.b and www.a.b"))
    assert "http://a" not in said
    assert "www." not in said


def test_a_document_is_text(named):
    """In README.txt titles are capitals on a line of their own; items hang."""
    folder = named("a &#124; *b*")
    lines = (folder / "README.txt").read_text("utf-8").splitlines()
    assert "a &#124; *b*" in " ".join(lines)
    titles = [line for line in lines if line.isupper()]
    assert len(titles) > 3
    assert all(not lines[lines.index(title) + 1] for title in titles)
    hung = [line for before, line in itertools.pairwise(lines)
            if before.startswith(("- ", "  ")) and line and not line.startswith("- ")]  # fmt: skip
    assert hung
    assert all(line.startswith("  ") for line in hung)
