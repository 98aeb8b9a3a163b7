"""Forged folders of every kind: no field ends in a traceback, and which figures nobody can check.

A forger of a figure writes everything anew that follows from it: texts, page, descriptions for
portals and receipt. What is found then was compared with something else. In the suite each field
and each figure is forged once, in one of the kinds of folders that have it; with HEXVEIL_ATTACK=1
in all of them, and fields in every way.
"""

import json
import random
import re
import shutil
from fractions import Fraction
from functools import reduce
from operator import getitem
from pathlib import Path

import pyarrow as pa
import pytest

import hexveil as hv
from attack import folder_kinds
from examples import LONG
from hexveil.base.errors import InputError
from hexveil.cli.commands.folder_command import rows
from hexveil.cli.formatting import text_of
from hexveil.publishing import folder as folders
from hexveil.publishing import receipt
from hexveil.publishing.archive.archive import open_archive
from hexveil.publishing.archive.archive_listing import CurrentRelease
from hexveil.publishing.estimates.places import without_places
from hexveil.publishing.manifest import as_current
from hexveil.publishing.verification import file_comparison, verify
from hexveil.publishing.verification.archive_checks import ArchiveVerdict, check_archive
from hexveil.report.payload import script_json
from publishing.releases import statements_of

COMPARED, FEW = ("stac-item.json", "datapackage.json"), 0.2
TEXT = "a text"
VOTE = 2**28
"""Numbers above are sums of parts of votes."""
RETYPED = ("deleted", None, "x", [], {}, 0, True, -1.5)
FREE = {
    # What was declared, or is said of records that are not in the folder.
    "plan.fleet.*", "plan.request.*", "plan.weights.*",
    "plan.components.stages.bins", "rules.*", "ledger.entry", "guarantee.delta",
    # What was predicted before the release.
    "plan.prediction.*", "plan.expected_error.*",
    "scores.plan.mean_error", "scores.plan.max_error",
    # Losses of single units, of which the folder has sums.
    "guarantee.l0_epsilon", "guarantee.epsilon_requested", "losses.*", "plan.privacy_steps.*",
    "cells.noised.contribution_cap",
    "cells.scores.noised.*",
    # What private steps found, and what a model makes of noisy numbers.
    "accuracy.between_cells", "accuracy.typical_error", "smoothing.*", "bounds.*",
    "cells.noised.centre",
}  # fmt: skip
"""Figures of a manifest that nothing else determines; those of parts as those of the whole."""
FREE_TEXTS = re.compile(
    r"\.(mechanism|method|stage|releases|assumption|select|user_cap)$|^model$"
    r"|^plan\.columns\."
)
"""Texts that say how a plan was made and what was declared, which decide no figure."""
FREE_COLUMNS = {
    "mean_estimate", "mean_low", "mean_high", "mean_smoothed",
    "variance_low", "variance_high", "variance_smoothed",
}  # fmt: skip
"""Columns that follow from a model or from weights of users that no folder has."""
FREE_SHAPES = re.compile(r"(mean|p\d+|share_\w+|histogram_\d\d)(_low|_high|_estimate|_error)?")
"""Likewise of distributions, whose statistics agree with each other."""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return a folder in which those of each kind are made when they are asked for."""
    return tmp_path_factory.mktemp("kinds")


def folder_of(home, kind):
    """Return the folder of a kind."""
    return home / kind if (home / kind).exists() else folder_kinds.make(home, kind)


def chance_of(*words):
    """Return chance that is the same in every run, and differs from one place to the next."""
    return random.Random(repr(words))  # noqa: S311  a repeatable attack


def parted(home, places):
    """Return the places of each kind that are forged in it: of equal names one, by chance."""
    named = {kind: [*places(folder_of(home, kind))] for kind in folder_kinds.KINDS}
    if LONG:
        return named
    holders = {}
    for kind, found_there in named.items():
        for name, place in found_there:
            holders.setdefault(name, []).append((kind, place))
    drawn = {kind: [] for kind in named}
    for name, those in holders.items():
        # Descriptions for portals are compared as whole texts, and most texts of a manifest are
        # recomputed: a few of them do for all.
        if (name[0] in COMPARED or TEXT in name) and chance_of("few", name).random() > FEW:
            continue
        kind, place = chance_of(name).choice(those)
        drawn[kind].append((name, place))
    return drawn


# ---- fields ----


def paths(value, at=()):
    """Yield the place of every field of JSON; of lists those of the first two."""
    if isinstance(value, dict | list):
        for key in [*value] if isinstance(value, dict) else range(min(len(value), 2)):
            yield (*at, key)
            yield from paths(value[key], (*at, key))


def put(content, path, change):
    """Return JSON with one field exchanged, or without it."""
    (key, *inside), made = path, content.copy()
    if inside:
        made[key] = put(content[key], inside, change)
    elif change == "deleted":
        del made[key]
    else:
        made[key] = change
    return made


def seal(root):
    """Write all receipts anew, those of folders inside first."""
    for path in sorted(root.rglob(receipt.NAME), key=lambda path: -len(path.parts)):
        sealed = json.loads(path.read_text("utf-8"))
        manifest = json.loads((path.parent / "manifest.json").read_text("utf-8"))
        for name in ("dataset", "request", "ledger"):
            said = manifest.get(name) if isinstance(manifest, dict) else None
            sealed[name] = (
                said.get("name") if name == "dataset" and isinstance(said, dict) else said
            )
        sealed["files"] = {
            name: receipt.file_digest(path.parent / name) for name in sealed["files"]
        }
        path.write_text(json.dumps(sealed), "utf-8")


def fields(folder):
    """Yield every field of the JSON files of a folder: its name, and its file and place there."""
    for file in sorted(folder.rglob("*.json")):
        for path in paths(json.loads(file.read_text("utf-8"))):
            name = (file.name, *(key if isinstance(key, str) else "*" for key in path))
            yield name, (file.relative_to(folder), path)


@pytest.fixture(scope="module")
def parted_fields(home):
    """Return the fields of each kind that are changed in it."""
    return parted(home, fields)


def check(place):
    """Return the problems of a folder or an archive, as the command says them."""
    try:
        if not (place / "manifest.json").exists():
            return check_archive(place).problems
        verdict = verify.check_folder(place)
        assert all(line.isprintable() for line in text_of(rows(place, verdict)).splitlines())
    except InputError as error:
        return (str(error),)
    return verdict.problems


def missed(folder, places, copied):
    """Change so many fields of a folder, each in one way, or in all; yield what is not told."""
    for file, path in places:
        content = json.loads((folder / file).read_text("utf-8"))
        for change in RETYPED if LONG else [chance_of(folder.name, file, path).choice(RETYPED)]:
            place = copied / "copy"
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(folder, place)
            (place / file).write_text(json.dumps(put(content, path, change)), "utf-8")
            if file.name != receipt.NAME:
                seal(place)
            # What is missing, or of another type, is found wherever it is not optional.
            sealed = file.name == receipt.NAME
            told = sealed and path[0] in ("dataset", "request", "ledger", "files")
            try:
                problems = check(place)
            except Exception as error:  # noqa: BLE001  whatever it is, no reader may see it
                yield str(file), path, change, repr(error)
            else:
                if told and not problems:
                    yield str(file), path, change, "not found"


@pytest.mark.slow
@pytest.mark.parametrize("kind", folder_kinds.KINDS)
def test_no_field_of_a_folder_ends_in_a_traceback(home, parted_fields, kind, tmp_path):
    """A field that is missing or of another type is told in a sentence, in every JSON file."""
    places = [place for _, place in parted_fields[kind]]
    assert list(missed(folder_of(home, kind), places, tmp_path)) == []


@pytest.mark.slow
def test_no_field_of_an_archive_ends_in_a_traceback(home, tmp_path):
    """Pointers and catalogues of an archive, and the manifests of its releases."""
    folder = folder_of(home, "delta")
    place = open_archive(str(tmp_path / "archive"), "buses")
    request = json.loads((folder / receipt.NAME).read_text("utf-8"))["request"]
    pointer = CurrentRelease.of_day("2024-01-30", request)
    place.write_release(pointer, lambda target: shutil.copytree(folder, target))
    place.set_current(pointer)
    place.update_catalogue()
    assert check_archive(tmp_path / "archive") == ArchiveVerdict((), 1)
    places = [place for _, place in fields(tmp_path / "archive")]
    places = places if LONG else chance_of().sample(places, 12)
    assert list(missed(tmp_path / "archive", places, tmp_path)) == []


# ---- figures ----


def numbers(value, at=()):
    """Yield the place of every number and text in JSON."""
    if isinstance(value, dict | list):
        for key in [*value] if isinstance(value, dict) else range(len(value)):
            yield from numbers(value[key], (*at, key))
    elif not isinstance(value, bool) and forged(value) != value:
        yield at


def is_number(manifest, path):
    """Return whether what stands at a place is a number, or a text that is one."""
    value = reduce(getitem, path, manifest)
    return not isinstance(value, str) or forged(value) != f"{value}s"


def forged(value):
    """Return another number or text; what is neither as it is."""
    if isinstance(value, str):
        try:
            exact = Fraction(value)
        except (ValueError, ZeroDivisionError):
            return f"{value}s"
        return str(int(exact) + 1) if exact.denominator == 1 else f"{float(exact) * 1.01:.15f}"
    if isinstance(value, int):
        # One part of a vote among 2^30 decides nothing, so that nothing could notice it.
        return value + max(1, abs(value) >> 10 if abs(value) > VOTE else 1)
    return value * 1.01 + 1e-4 if isinstance(value, float) else value


def released(folder):
    """Return the table and the statements of the only value column of a folder, or of the first."""
    alone = next(iter(hv.load(folder).releases.values()))
    own = statements_of(alone)
    # Names, dates and places are written again with every folder.
    return without_places(alone.table, own), own


def figures(folder):
    """Yield every figure and text of a folder that something may determine: its name and place."""
    table, manifest = released(folder)
    for path in numbers(manifest):
        name = re.sub(r"moments\.", "", ".".join(k for k in path if isinstance(k, str)))
        if path[0] not in ("schema_version", "software", "dataset") and not is_free(name):
            yield (name, "a figure" if is_number(manifest, path) else TEXT), path
    for field in table.schema:
        number = pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
        if number and field.name not in FREE_COLUMNS and not FREE_SHAPES.fullmatch(field.name):
            yield (field.name, "cells"), None


@pytest.fixture(scope="module")
def parted_figures(home):
    """Return the figures of each kind that are forged in it."""
    return parted(home, lambda folder: dict(reversed([*figures(folder)])).items())


def with_forged(table, manifest, name, path):
    """Return table and manifest with one figure exchanged."""
    if path is not None:
        return table, put(manifest, path, forged(reduce(getitem, path, manifest)))
    values, index = table[name].to_pylist(), table.column_names.index(name)
    at = next((at for at, value in enumerate(values) if value is not None), 0)
    values[at] = forged(values[at])
    field = table.schema.field(index)
    return table.set_column(index, field, pa.array(values, field.type)), manifest


def found(table, manifest, place):
    """Return whether a forged release is refused, when it is written or when it is checked."""
    shutil.rmtree(place, ignore_errors=True)
    try:
        folders.write(table, as_current(manifest), place)
    except (ArithmeticError, LookupError, TypeError, ValueError, InputError):
        return True
    return bool(check(place))


def is_free(name):
    """Return whether a figure of a manifest is one of those that nothing determines."""
    part = re.sub(r"^scores\.", "", name)
    figures = {name, part, f"guarantee.{part}"}
    wild = {".".join((*one.split(".")[:end], "*")) for one in figures for end in (1, 2, 3)}
    return bool((figures | wild) & FREE) or FREE_TEXTS.search(name) is not None


@pytest.mark.slow
@pytest.mark.parametrize("kind", folder_kinds.KINDS)
def test_a_forged_figure_is_found_or_named(home, parted_figures, kind, tmp_path):
    """Every number of manifest and table that passes is one that the docs name; most texts fail."""
    table, manifest = released(folder_of(home, kind))
    passed = {
        name
        for (name, _), path in parted_figures[kind]
        if not found(*with_forged(table, manifest, name, path), tmp_path / "forged")
    }
    assert not passed


@pytest.mark.slow
def test_data_of_a_page_are_compared(home, tmp_path):
    """Data in another order, repeated and moved data are found."""

    def problems(page):
        (place / "report.html").write_text(page, "utf-8")
        seal(place)
        return check(place)

    place = tmp_path / "copy"
    shutil.copytree(folder_of(home, "distribution"), place)
    page = (place / "report.html").read_text("utf-8")
    head, data, tail = file_comparison.split_page(page)
    start = head + file_comparison.DATA
    shown = json.loads(data)
    turned = dict(reversed(shown.items()))
    swapped = start.replace('data-grade="3"', 'data-grade="0"')
    assert start != swapped
    for forged in (
        f"{start}{script_json(turned)}</script>{tail}",
        f'{start}{{"colour":{{}},{data[1:]}</script>{tail}',
        f"{start}{script_json([shown])}</script>{tail}",
        *(f"{start}{text}</script>{tail}" for text in ("", data[:-1], "[" * 9000, '{"x":NaN}')),
        f"{swapped}{data}</script>{tail}",
    ):
        assert any("report.html is not what" in one for one in problems(forged))


@pytest.mark.slow
def test_anything_appended_to_a_page_is_found(home, tmp_path):
    """Markup before, after and inside of the page, with a receipt that fits."""
    for kind in ("squares", "presence", "columns"):
        source = folder_of(home, kind)
        page = (source / "report.html").read_text("utf-8")
        for forgery in (
            f"{page}<p>99 km/h</p>",
            f"<!-- x -->{page}",
            page.replace("</h1>", "</h1><p>Certified.</p>", 1),
            page.replace('"columns":', '"columns": ', 1),
        ):
            place = tmp_path / "copy"
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(source, place)
            (place / "report.html").write_text(forgery, "utf-8")
            seal(place)
            assert forgery != page
            assert any("report.html is not what" in one for one in check(place))


def test_the_docs_name_what_cannot_be_found():
    """The list of the guarantees is that of this test."""
    text = (Path(__file__).parents[2] / "docs/understand/guarantees.md").read_text("utf-8")
    section = text.partition("## What a folder cannot show")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z_.*0-9]+)`", section.partition("### Figures")[2]))
    assert named == FREE | FREE_COLUMNS
