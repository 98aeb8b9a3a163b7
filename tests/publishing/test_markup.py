"""Documents: text in, Markdown out that shows the same text."""

import html

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hexveil.publishing.markup import (
    BulletList,
    DocumentSection,
    DocumentTable,
    FillIn,
    Paragraph,
    clean,
    escaped,
    parse,
    unescaped,
)

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
        assert READER.render(Paragraph(text).to_markdown()) == f"<p>{seen}</p>\n"
        assert f"<li>{seen}</li>" in READER.render(BulletList((text,)).to_markdown())
    table = READER.render(DocumentTable(("head", text), ((text, "end"),)).to_markdown())
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
    made = DocumentSection(
        "A",
        (Paragraph("b|c"), FillIn("to be filled in", "who")),
        (DocumentSection("D", (BulletList(("e",)),)),),
    )
    assert made.to_markdown() == ("# A\n\nb&#124;c\n\n[to be filled in: who]\n\n## D\n\n- e")
    assert made.to_data() == {
        "title": "A",
        "blocks": [{"text": "b|c"}, {"fill_in": "who"}],
        "sections": [{"title": "D", "blocks": [{"items": ["e"]}], "sections": []}],
    }


@given(st.text(max_size=30))
@example("&amp; \\& &#38;")
def test_escaping_is_undone(text):
    """The text that a template was given comes back from its markup, cleaned."""
    assert unescaped(escaped(text)) == clean(text)


@given(st.text(max_size=20), st.text(max_size=20))
@example("]", "# a")
@example("- a", "a]\n\n# b")
def test_no_value_changes_the_structure_of_a_document(one, other):
    """Whatever is put into paragraphs, items, cells, titles and places to fill in: they stay."""
    a, b = (escaped(text) for text in (one, other))
    made = parse(
        f"# t {a}\n\np {a}\n{b}\n\n- {a}\n- {b}\n\n| h | {a} |\n| --- | --- |\n| {b} | e |\n\n"
        f"[who: {a}]\n\n## s {b}\n\n{a} q"
    )
    assert [type(block) for block in made.blocks] == [Paragraph, BulletList, DocumentTable, FillIn]
    assert made.blocks[1].items == (clean(one), clean(other))
    assert made.blocks[2].rows == ((clean(other), "e"),)
    assert (made.title, made.sections[0].title) == (clean(f"t {one}"), clean(f"s {other}"))
    assert [type(block) for block in made.sections[0].blocks] == [Paragraph]


def test_plain_text_has_capitals_and_hanging_lines():
    """Titles below the first are in capitals, and items that run on are indented."""
    made = DocumentSection(
        "a",
        (BulletList(("b " * 60,)),),
        (DocumentSection("c", (DocumentTable(("h", "i"), (("d", "e"),)),)),),
    )
    title, blank, first, second, *rest = made.to_text().split("\n")
    assert (title, blank, first[:3], second[:3]) == ("a", "", "- b", "  b")
    assert rest == ["", "C", "", "- d: e"]


def test_a_document_has_one_title():
    """A second title of the first level is refused."""
    with pytest.raises(ValueError, match="one title"):
        parse("# a\n\nb\n\n# c")
