"""Options are made from the run file's model, and the model from the library's doors."""

import inspect
import re
from decimal import Decimal

import click
import pytest

import hexveil as hv
from hexveil.cli.app import app
from hexveil.config.fields import FIELDS as WORDS
from hexveil.config.fields import OPTIONS, section_of

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
        told = WORDS[section, name].default
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
            assert name in other or section_of(name) is not None, name


@pytest.mark.parametrize("command", ["inspect", "plan", "release", "publish"])
def test_each_command_takes_the_options_that_people_type(command):
    """And every other field by --set."""
    found = app.get_command(click.Context(app), command)
    flags = {flag for parameter in found.params for flag in parameter.opts}
    assert {"--json", "--set", *(flag for flag, _ in OPTIONS.values())} <= flags


def test_every_field_is_described():
    """Each field has a sentence, a shape, and a check of its values."""
    for (_, name), field in WORDS.items():
        assert field.description.endswith("."), name
        assert field.shape, name
        assert bool(field.choices) == (field.kind == "choice"), name
