"""Constants of the stages that measure with private presence belong to one version of them."""

import ast
import hashlib
import importlib
import inspect
import pkgutil
from fractions import Fraction

from hexveil.mechanisms import pooled_law, presence
from hexveil.mechanisms.distribution import pooled_shape
from hexveil.publishing.kinds.presence_manifest import STAGES_VERSION

POST_PROCESSING = ("presence_decoding",)
"""Modules after the last stage: estimates and intervals may improve at no cost."""
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


def test_constants_belong_to_the_version_of_the_stages():
    """Another constant needs another `STAGES_VERSION`: raise it, then write both here."""
    digest = hashlib.sha256("\n".join(constants()).encode()).hexdigest()[:16]
    assert (STAGES_VERSION, digest) == ("4", "7508bb70a66dda34")
