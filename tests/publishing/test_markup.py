"""Documents: text in, Markdown out that shows the same text."""

import html

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hexveil.publishing.markup import clean, escaped, items_of, parse, unescaped

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
@example("&amp; \\& &#65;")
@example("[x]: y")
@example("~~~\nz")
@example("]\n\n# a")
def test_any_text_is_shown_as_it_is(text):
    """A title, a paragraph, an item and a cell of any text hold that text and nothing else."""
    said = clean(text)
    assert len(said.splitlines()) <= 1
    assert said == clean(said) == said.encode().decode() == unescaped(escaped(text))
    if not said:
        return
    a = escaped(text)
    made = parse(
        f"# t {a}\n\n{a}\n\n- {a}\n- b\n\n| h | {a} |\n| --- | --- |\n| {a} | e |\n\n## s {a}"
    )
    assert (made.title, made.sections[0].title) == (clean(f"t {text}"), clean(f"s {text}"))
    paragraph, items, table = made.blocks
    assert items_of(paragraph) == []
    assert items_of(items) == [said, "b"]
    assert items_of(table) == [["h", said], [said, "e"]]
    page, seen = READER.render(made.to_markdown()), shown(said)
    for tag, count in (("<h1>", 1), ("<h2>", 1), ("<p>", 1), ("<li>", 2), ("<th>", 2), ("<td>", 2)):
        assert page.count(tag) == count
    for tag in ("p", "li", "th", "td"):
        assert f"<{tag}>{seen}</{tag}>" in page


@pytest.mark.parametrize("name", ["file_name", "tests/a_b/test_c.py", "मुंबई\u200dक", "3.5 km", "-5"])
def test_plain_names_are_left_alone(name):
    """What Markdown does not read as a mark stays readable in the raw text."""
    assert escaped(name) == name


def test_addresses_are_no_links():
    """Readers that turn addresses into links find none."""
    assert "://" not in escaped("see http://a.b")
    assert "www." not in escaped("www.a.b")


def test_a_document_is_markdown_and_text():
    """Headings go down a level with each part, in text they are capitals; items hang."""
    below = f"## D\n\n- {'e ' * 60}\n\n| h | i |\n|---|---|\n| j | k |"
    made = parse(f"# A\n\nb&#124;c\n d\n\n[who: f]\n\n{below}")
    assert made.to_markdown().startswith("# A\n\nb&#124;c d\n\n[who: f]\n\n## D\n\n- e")
    assert made.to_text().startswith("A\n\nb|c d\n\n[who: f]\n\nD\n\n- e e")
    assert "\n  e e" in made.to_text()
    assert made.to_text().endswith("- j: k")
    with pytest.raises(ValueError, match="one title"):
        parse("# a\n\nb\n\n# c")
