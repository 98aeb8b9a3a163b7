"""Documents: text in, Markdown out that shows the same text."""

import html

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hexveil.publishing.prose import Bullets, Section, Table, Text, ToFill, clean, escaped

READER = MarkdownIt("commonmark").enable("table")


def shown(text):
    """Return text as HTML writes it."""
    return html.escape(text, quote=False).replace('"', "&quot;")


@given(st.text(max_size=30))
@example("# a")
@example("12) b")
@example("- c")
@example("---")
@example("===")
@example("a\\|b")
@example("<!-- d -->")
@example("_e_ f_g __h__ *i*")
@example("&amp; &#65;")
@example("[x]: y")
@example("~~~\nz")
def test_any_text_is_shown_as_it_is(text):
    """A paragraph, an item and a cell of any text hold that text and nothing else."""
    seen = shown(clean(text))
    if clean(text):
        assert READER.render(Text(text).markdown()) == f"<p>{seen}</p>\n"
        assert f"<li>{seen}</li>" in READER.render(Bullets((text,)).markdown())
    table = READER.render(Table(("head", text), ((text, "end"),)).markdown())
    assert table.count("<th>") == table.count("<td>") == 2
    assert f"<td>{seen}</td>" in table


@given(st.text(max_size=30))
def test_cleaning_leaves_one_line_that_can_be_stored(text):
    """Cleaned text has no line break, can be encoded, and stays as it is when cleaned again."""
    said = clean(text)
    assert len(said.splitlines()) <= 1
    assert said.encode().decode() == said
    assert clean(said) == said


@pytest.mark.parametrize("name", ["file_name", "tests/a_b/test_c.py", "मुंबई\u200dक", "3.5 km", "-5"])
def test_plain_names_are_left_alone(name):
    """What Markdown does not read as a mark stays readable in the raw text."""
    assert escaped(name) == name


def test_addresses_are_no_links():
    """Readers that turn addresses into links find none."""
    assert "://" not in escaped("see http://a.b")
    assert "www." not in escaped("www.a.b")


def test_a_document_nests_its_sections():
    """Headings go down a level with each part; data have the same words, unescaped."""
    made = Section("A", (Text("b|c"), ToFill("who")), (Section("D", (Bullets(("e",)),)),))
    assert made.markdown() == (
        "# A\n\nb&#124;c\n\n[to be filled in by the controller: who]\n\n## D\n\n- e"
    )
    assert made.data() == {
        "title": "A",
        "blocks": [{"text": "b|c"}, {"fill_in": "who"}],
        "parts": [{"title": "D", "blocks": [{"items": ["e"]}], "parts": []}],
    }
