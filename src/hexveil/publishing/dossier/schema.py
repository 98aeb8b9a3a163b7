"""What a dossier uses of a manifest, and what it must look like there.

The schema of a manifest says more; a dossier needs these fields, and needs them to be of their
kind before it puts them into sentences.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.base.errors import InputError
from hexveil.model.public_metadata import UNITS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Check = Callable[[Any], bool]

_EXACT = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400}|/[0-9]{1,400})?")
_STATISTICS = {"mean", "variance", "sd"}


def _text(found: object) -> bool:
    return isinstance(found, str)


def _maybe_text(found: object) -> bool:
    return found is None or _text(found)


def _texts(found: object) -> bool:
    return isinstance(found, list) and all(map(_text, found))


def _whole(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 2**63


def _number(found: object) -> bool:
    return _whole(found) or (isinstance(found, float) and math.isfinite(found) and found >= 0)


def _exact(found: object) -> bool:
    if not isinstance(found, str) or not _EXACT.fullmatch(found):
        return False
    return "/" not in found or int(found.split("/")[1]) > 0


def _end(found: object) -> bool:
    return isinstance(found, float) and math.isfinite(found)


def _positive(found: object) -> bool:
    return _number(found) and isinstance(found, (int, float)) and found > 0


def _loss(found: object) -> bool:
    return _exact(found) and not str(found).startswith("-")


def _part(found: object) -> bool:
    return _loss(found) and 0 < Fraction(str(found)) <= 1


def _share(found: object) -> bool:
    return _number(found) and isinstance(found, (int, float)) and found <= 1


def _factor(found: object) -> bool:
    return found is None or (_number(found) and isinstance(found, (int, float)) and found >= 1)


def _unit(found: object) -> bool:
    return isinstance(found, str) and found in UNITS


def _error(found: object) -> bool:
    if not isinstance(found, dict):
        return _number(found)
    return set(found) == {"mean", "variance"} and all(map(_number, found.values()))


def _mapping(good: Check) -> Check:
    return lambda found: isinstance(found, dict) and all(map(good, found.values()))


def _hex(found: object) -> bool:
    return isinstance(found, str) and re.fullmatch("[0-9a-f]{64}", found) is not None


def _grid(found: object) -> bool:
    if not isinstance(found, dict):
        return False
    if found.get("kind") == "labels":
        return _texts(found.get("columns"))
    slots = _maybe_text(found.get("timeslot")) and _maybe_text(found.get("timezone"))
    pooled = found.get("slot") in ("calendar", "pooled")
    return found.get("kind") == "hexagons" and _whole(found.get("resolution")) and slots and pooled


def _place(found: object) -> bool:
    if not isinstance(found, dict):
        return found is None
    return _whole(found.get("entry")) and _hex(found.get("chain"))


def _noised(found: object) -> bool:
    return isinstance(found, dict) and _text(found.get("statistic")) and _number(found.get("bias"))


def _steps(found: object) -> bool:
    """Return whether these are steps that look at values, each with what it found."""
    if not isinstance(found, list) or not all(map(_step, found)):
        return False
    names = tuple(step["step"] for step in found)
    if names in ((), ("cells",), ("clipping_range", "cells")):
        return True
    ways = [way for way, steps in _WAYS.items() if names == steps and found[1]["strategy"] == way]
    return bool(ways) and ("single_stage" in ways or _positive(found[-1].get("half_width")))


def _step(found: object) -> bool:
    """Return whether this is a step of a known name, with its price and what else it must have."""
    if not isinstance(found, dict) or not isinstance(found.get("step"), str):
        return False
    needed = _STEPS.get(found["step"])
    if needed is None or not _loss(found.get("epsilon")) or not _share(found.get("share")):
        return False
    return all(good(found.get(key)) for key, good in needed.items())


def _cell(found: object) -> bool:
    parts = found.get("noised") if isinstance(found, dict) else None
    return isinstance(parts, list) and bool(parts) and all(map(_noised, parts))


def _cells(found: object) -> bool:
    return isinstance(found, list) and bool(found) and all(map(_cell, found))


def _statistics(found: object) -> bool:
    return isinstance(found, list) and bool(found) and set(map(str, found)) <= _STATISTICS


def _counted(found: object) -> bool:
    """Return whether these are numbers of cells, each of a known statistic."""
    return isinstance(found, list) and all(
        isinstance(one, dict) and one.get("statistic") in _STATISTICS and _whole(one.get("cells"))
        for one in found
    )


_STEPS: Mapping[str, Mapping[str, Check]] = {
    "clipping_range": {"lower": _end, "upper": _end},
    "residual_scale": {"quantile": _part, "half_width": _positive, "strategy": _text},
    "user_clusters": {"n_clusters": _whole, "lower": _end, "upper": _end},
    "first_stage": {},
    "cells": {"half_width": lambda found: found is None or _positive(found)},
}
_WAYS = {
    "single_stage": ("clipping_range", "residual_scale", "cells"),
    "user_residuals": ("clipping_range", "residual_scale", "user_clusters", "cells"),
    "cell_residuals": ("clipping_range", "residual_scale", "first_stage", "cells"),
}
"""The steps of each way, in their order."""

FIELDS: Mapping[str, Mapping[str, Check] | Check] = {
    "software": _mapping(_text),
    "dataset": {
        **dict.fromkeys(("name", "columns", "repeats", "value", "value_unit"), _text),
        "version": _maybe_text,
        "sources": _texts,
    },
    "guarantee": {
        "privacy_unit": _unit,
        **dict.fromkeys(("promise", "neighbours", "not_protected"), _text),
        **dict.fromkeys(("epsilon_requested", "epsilon_spent", "l0_epsilon"), _loss),
        "probability_factor": _factor,
        "assumptions": _texts,
    },
    "bounds": dict.fromkeys(("lower", "upper", "quantum"), _exact),
    "grid": _grid,
    "rules": _mapping(_whole),
    "selection": _mapping(_text),
    "plan": {
        **dict.fromkeys(("method", "mechanism"), _text),
        "statistics": _statistics,
        **dict.fromkeys(("mean_error", "max_error"), _error),
        "cells_better_than_constant": _whole,
        "privacy_steps": _steps,
    },
    "losses": {
        **dict.fromkeys(("units", "at_zero"), _whole),
        **dict.fromkeys(("max", "p99", "p90", "median", "mean"), _number),
    },
    "cells": _cells,
    "cut_off": _counted,
    "request": _hex,
    "ledger": _place,
}


def check(said: dict[str, Any], path: Path) -> None:
    """Raise InputError at the first field that is missing or is not what it must be.

    Parameters
    ----------
    said : dict
        A manifest as read.
    path : Path
        Where it was read, for the message.
    """
    for key, wanted in FIELDS.items():
        if callable(wanted):
            _one(said, key, wanted, key, path)
            continue
        _one(said, key, lambda found: isinstance(found, dict), key, path)
        for name, good in wanted.items():
            _one(said[key], name, good, f"{key}/{name}", path)


def _one(said: dict[str, Any], key: str, good: Check, place: str, path: Path) -> None:
    if key in said and good(said[key]):
        return
    what = "is not what a release writes there" if key in said else "is missing"
    raise InputError(f"{path}: {place} {what}; get the folder again from its holder.")
