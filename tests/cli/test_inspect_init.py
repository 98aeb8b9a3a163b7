"""`hexveil inspect FILE --init`: a run file from names and types of columns, never from values."""

import json
import re
import tomllib

import pytest

from cli.run_file_page import page_fields

FILL_IN = "FILL IN"
GAPS = {"bounds": "[0, 65]", "timezone": '"Asia/Kolkata"'}


def filled(text, **more):
    """Return the text with its marked lines filled in."""
    for name, value in (GAPS | more).items():
        text = text.replace(f'{name} = "{FILL_IN}"', f"{name} = {value}")
    return text


def given(text):
    """Return the fields that have a value, of all sections."""
    sections = tomllib.loads(text)
    return {key: value for fields in sections.values() if isinstance(fields, dict)
            for key, value in fields.items()}  # fmt: skip


def drafted(text):
    """Return the fields that a draft has or shows as a comment, in TOML, by section and name."""
    section, found = "", {}
    for line in text.splitlines():
        if heading := re.match(r"\[(\w+)\]", line):
            section = heading[1]
        elif field := re.fullmatch(r"(?:# )?(\w+) = (\S.*)", line):
            found[section, field[1]] = field[2]
    return found


@pytest.mark.slow
def test_gaps_are_refused_in_one_sentence(here, call, okay):
    """Until the gaps are filled in every command says which there are; an option fills one, too."""
    (here / "new.toml").write_text(call("inspect buses.parquet --init").out)
    for command in ("inspect", "plan", "release", "publish"):
        said = call(command, "new.toml --epsilon 1")
        assert (said.code, said.out) == (2, "")
        assert said.err == (
            "hexveil: new.toml: bounds (in [values]), timezone (in [cells]) are not filled in "
            "yet: replace 'FILL IN' as the comment above it says.\n"
        )
    said = call("inspect new.toml --bounds 0,65")
    assert "timezone (in [cells]) is not filled in yet" in said.err
    okay("inspect new.toml --bounds 0,65 --timezone Asia/Kolkata")


def test_every_field_is_explained_in_its_own_words(here, call):
    """Above every field stands what it is, in the words of the run file's page."""
    text = call("inspect buses.parquet --init").out
    prose = " ".join(line.lstrip("# ") for line in text.splitlines())
    fields = page_fields()
    for key in drafted(text):
        assert fields[key].description.replace("as 0,65", "as [0, 65]") in prose, key
    typed = {key for key, field in fields.items() if field.option}
    assert typed - drafted(text).keys() == {("privacy", "protect")}


def test_examples_are_fields_that_can_be_read(here, call, refuse):
    """Every commented example and every default reads back, alone in its section."""
    text = filled(call("inspect buses.parquet --init").out)
    for (section, name), value in drafted(text).items():
        heading = f"[{section}]\n" if section else ""
        (here / "one.toml").write_text(f"{heading}{name} = {value}\n")
        # The next thing that is missing is asked for: all that is there was read.
        assert re.match(r"hexveil: (epsilon|source)\b.* is needed", refuse("plan one.toml").err), (
            name
        )


def test_what_is_given_is_kept(here, okay):
    """Options take the place of what would be proposed, each as it was written."""
    said = okay(
        "inspect buses.parquet --init --user speed --value x --bounds=-1.5,70",
        "--set read.privacy_unit=user-day --set ledger.budget=0.1 --dataset 7",
        "--set select.hours=6-9,17 --set release.accept_noise=true --timezone Europe/Warsaw",
        "--set read.max_bad_rows=0.5",
    )
    assert given(said.out).items() >= {
        "user": "speed", "value": "x", "bounds": [-1.5, 70], "privacy_unit": "user-day",
        "budget": 0.1,
        "dataset": "7", "hours": ["6-9", "17"], "accept_noise": True,
        "timezone": "Europe/Warsaw", "max_bad_rows": 0.5,
    }.items()  # fmt: skip
    assert FILL_IN not in "".join(line for line in said.out.splitlines() if line[:1] != "#")
    (here / "new.toml").write_text(said.out)
    assert json.loads(okay("ledger init new.toml --json").out)["budget"] == "0.1"


def test_what_is_not_found_is_a_gap(here, call):
    """Where no name says what a column is, a gap asks for it; without times there are no slots."""
    (here / "odd.csv").write_text("who,what,amount\na,b,1\n")
    said = call("inspect odd.csv --init --trust-header")
    fields = given(said.out)
    assert [fields[name] for name in ("user", "value", "location", "bounds")] == [FILL_IN] * 4
    assert fields["timeslot"] == "none"
    assert "timezone" not in fields
    assert "No column name suggests it." in said.out
    assert "not the run file" in call("inspect odd.csv --init --out run.toml").err


DOUBTFUL = {
    "unusual names": "who,what,amount\na,b,1\n",
    "NDJSON": '{"bus": "kr7731", "speed": 31.5}\n' * 2,
}


@pytest.mark.parametrize("case", DOUBTFUL)
def test_a_doubtful_first_line_is_not_shown(here, call, case):
    """What may be a record stays where it is, unless the caller says that it holds names."""
    (here / "odd.csv").write_text(DOUBTFUL[case])
    said = call("inspect odd.csv --init")
    assert (said.code, said.out) == (2, "")
    assert "--trust-header" in said.err
    assert not any(word in said.err for word in ("kr77", "31", "who", "bus", "speed"))
    assert call("inspect odd.csv --init --trust-header").code == 0
    assert call("inspect odd.csv --trust-header").code == 2


def test_a_draft_under_private_presence_can_be_planned(here, call, okay):
    """It leaves out what may not depend on records, and asks for the declarations."""
    # Whether one vehicle alone was there decides a proposal where presence is public.
    for vehicle in (7, 8):
        rows = "".join(f"{bus},2,21.1,72.8,2024-01-01T00:00:00Z\n" for bus in (7, vehicle))
        (here / "few.csv").write_text(f"bus,speed,lat,lon,time\n{rows}")
        alike = okay("inspect few.csv --init --protect presence").out
        assert 'user = "bus"' in alike
        assert ('user = "bus"' in okay("inspect few.csv --init").out) == (vehicle == 8)
    text = call("inspect buses.parquet --init --protect presence").out
    (here / "private.toml").write_text(text)
    missing = call("plan private.toml").err
    for name in ("bounds", "timezone", "area", "fleet"):
        assert f"{name} (in [" in missing
    declared = {"area": "[72.6, 21.0, 73.0, 21.4]", "fleet": "100000"}
    text = filled(text, **declared).replace('timeslot = "1h"', 'timeslot = "6h"')
    (here / "private.toml").write_text(text)
    okay("plan private.toml")
