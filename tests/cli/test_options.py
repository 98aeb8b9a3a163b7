"""Options are made from the run file's model, and the model from the library's doors."""

import inspect
import re
from decimal import Decimal

import pytest

import hexveil as hv
from cli.run_file_page import page_fields

WORDS = page_fields()
FIELDS = [key for key in WORDS if key[0]]
DOORS = {
    "columns": (hv.read,),
    "values": (hv.read,),
    "read": (hv.read,),
    "cells": (hv.Cells, hv.Labels),
    "privacy": (hv.read, hv.plan, hv.FleetDeclaration),
    "select": (hv.Select,),
    "format": (hv.RecordFormat,),
    "plan": (hv.plan,),
    "release": (hv.release, hv.Release.write),
    "catalogue": (hv.Catalogue,),
    "ledger": (hv.Ledger,),
}
OURS = {
    ("cells", "labels"), ("cells", "one_cell"), ("release", "out"), ("release", "accept_noise"),
    ("publish", "wait"), ("publish", "late"), ("publish", "history"),
    ("privacy", "quiet_records"),
}  # fmt: skip


def parameters(section):
    """Return what the doors of a section take."""
    found = {}
    for door in DOORS[section]:
        found |= inspect.signature(door).parameters
    return found


def written(default):
    """Return a default of the library as a run file has it: text, a number, or none."""
    if default in (inspect.Parameter.empty, None, ()) or default is False:
        return None
    if isinstance(default, tuple):
        return ",".join(default)
    is_word = isinstance(default, str) and not re.fullmatch(r"\d[\d.]*", default)
    return default if is_word else Decimal(str(default))


def test_every_field_is_an_argument_of_the_library():
    """A field has the name of the library's argument, and says the library's default."""
    for section, name in set(FIELDS) - OURS:
        default = written(parameters(section)[name].default)
        told = WORDS[section, name].default and WORDS[section, name].default.strip('"')
        is_number = isinstance(default, Decimal)
        assert (Decimal(told) if is_number else told) == default, (section, name)


@pytest.mark.parametrize("section", DOORS)
def test_every_argument_of_the_library_is_a_field(section):
    """A door takes nothing that a run file cannot say."""
    other = {
        "self", "source", "cells", "select", "format", "columns", "folder", "dataset_or_facts",
        "plan", "ledger", "ds", "bounds", "advise", "data", "catalogue",
    }  # fmt: skip
    for name, parameter in parameters(section).items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            assert name in other | {field for _, field in FIELDS}, name


@pytest.mark.parametrize("command", ["inspect", "plan", "release", "publish"])
def test_each_command_takes_the_options_that_people_type(okay, command):
    """And every other field by --set."""
    flags = set(re.findall(r"--[\w-]+", okay(command, "--help").out))
    assert {"--json", "--set", *filter(None, (field.option for field in WORDS.values()))} <= flags
