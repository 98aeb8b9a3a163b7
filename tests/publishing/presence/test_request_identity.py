"""Identity of a request with private presence: frozen, whatever the modules are called."""

import ast
import hashlib
import importlib
import inspect
import pkgutil
from fractions import Fraction

import pytest

import hexveil as hv
from hexveil.mechanisms import pooled_law, presence
from hexveil.mechanisms.distribution import pooled_shape
from hexveil.publishing.kinds.presence_manifest import STAGES_VERSION, identify, request_name

POST_PROCESSING = ("presence_decoding",)
"""Modules after the last stage: estimates and intervals may improve at no cost."""
REQUESTS = {
    "averages": ({}, "d4dafb8a898e358c"),
    "averages, delta": ({"delta": "1e-6"}, "e39308e3debb4670"),
    "units": ({"statistics": "users"}, "a061271efe5a5cc1"),
    "medians": ({"statistics": ("p50", "share<10")}, "d17fca06558c4f9f"),
    "medians and units": ({"statistics": ("mean", "p85", "users")}, "139c026bb658f77b"),
}


PLAIN = (int, float, str, Fraction, tuple)


def constants():
    """Return the constants that modules which measure define, wherever they stand."""
    names = {pooled_law.__name__, pooled_shape.__name__, presence.__name__}
    names |= {one.name for one in pkgutil.walk_packages(presence.__path__, f"{presence.__name__}.")}
    found = set()
    for name in names:
        if name.rpartition(".")[2] in POST_PROCESSING:
            continue
        module = importlib.import_module(name)
        for line in ast.parse(inspect.getsource(module)).body:
            defined = [one.id for one in ast.walk(line) if isinstance(one, ast.Name)]
            if isinstance(line, ast.Assign | ast.AnnAssign) and defined[0].isupper():
                values = {one: vars(module).get(one) for one in defined if one.isupper()}
                found |= {f"{one} = {x!r}" for one, x in values.items() if isinstance(x, PLAIN)}
    return sorted(found)


@pytest.fixture(scope="module")
def declared():
    """Return a declared grid of four cells."""
    return hv.declare(
        user="car", value="speed", bounds=(0, 100), quantum="0.1", lat="lat", lon="lon",
        cells=hv.Cells(6, None, area=(20.5, 51.9, 21.5, 52.5)), protect="presence",
        statistics=("p50", "p85", "share<10"),
    )  # fmt: skip


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_request_keeps_its_name(declared, kind):
    """Whoever paid for a release is asked for nothing again by a version that measures alike."""
    options, name = REQUESTS[kind]
    made = hv.plan(declared, epsilon=2, fleet=3000, **options).request
    assert request_name(identify(made, "cars", {"columns": "car"}))[:16] == name


def test_constants_belong_to_the_version_of_the_stages():
    """Another constant needs another `STAGES_VERSION`: raise it, then write both here."""
    digest = hashlib.sha256("\n".join(constants()).encode()).hexdigest()[:16]
    assert (STAGES_VERSION, digest) == ("4", "7508bb70a66dda34")
