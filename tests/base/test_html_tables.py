"""Tables for notebooks: escaped, short, and with no number that is not there."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hexveil.base.html_tables import MAX_LETTERS, MAX_ROWS, html_table, paragraph


def test_numbers_are_short_and_missing_values_empty():
    """Floats have four digits, truth is a word, and a missing value is nothing."""
    table = pa.table({"n": [12], "x": [1 / 3], "yes": [True], "no": [False], "none": [None]})
    page = html_table(table, {"x": "third"})
    assert "<th>n</th><th>third</th>" in page
    assert "<td>12</td><td>0.3333</td><td>yes</td><td></td><td></td>" in page


def test_only_the_first_rows_are_shown():
    """A longer table says how long it is."""
    page = html_table(pa.table({"n": range(MAX_ROWS + 1)}))
    assert page.count("<td>") == MAX_ROWS
    assert f"The first {MAX_ROWS} of {MAX_ROWS + 1} rows." in page
    assert "first" not in html_table(pa.table({"n": range(MAX_ROWS)}))


@given(st.text(min_size=1))
def test_no_text_becomes_markup(text):
    """Whatever a label or its column is named, it is read back as text, and tags stay ours."""
    page = html_table(pa.table({text: [text]}))
    assert page.count("<") == page.count(">") == 14
    shortened = text if len(text) <= MAX_LETTERS else f"{text[:MAX_LETTERS]}..."
    assert page.partition("<td>")[2].partition("</td>")[0] == _escaped(shortened)
    assert paragraph(text).count("<") == 2


def _escaped(text):
    pairs = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#x27;"))
    for mark, entity in pairs:
        text = text.replace(mark, entity)
    return text
