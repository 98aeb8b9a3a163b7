"""Plans that hexveil wrote before December 2026 (format 1), in the words of today: until 2028.

Of folders and of ledger bytes alike, old words are turned into new ones, and read and checked as
those. To be deleted after December 2028: a ledger row is needed again where its request is repeated
(`hexveil ledger` shows when it was booked), and a saved plan goes with the records that it was made
for. Then a request of such a row is refused, with the version that reads it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexveil.model.statistic_terms import parse_statistics
from hexveil.planning.distribution.distribution_components import score_metadata
from hexveil.planning.plan_arguments import PlanArguments
from hexveil.planning.plan_moments import plan_moments
from hexveil.planning.serialization.codec import (
    CODERS,
    MAGIC,
    Arrays,
    Codec,
    Words,
    damaged,
    unpack_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hexveil.planning.distribution.distribution_plan import DistributionPart
    from hexveil.planning.moment_part import MomentPart
    from hexveil.planning.plan import Plan

COLUMNS = b"hexveil plan of value columns\n"
DISTRIBUTION = b"hexveil plan of distributions\n"
KINDS = {"columns": "ColumnPlans", "distribution": "DistributionPlan"}
# An earlier version scored pooled ranks, which its stored numbers are decoded with, under "ranks".
_RANKS = "ranks among the points asked for"
_SIZE_BYTES = 8
_NESTED = {"PrivateRange": "range", "PerCellRange": "plan"}
"""Field with what a range decides, by its kind."""
_RENAMED = {"kept": "mean_kept", "dropped_cell": "cell", "dropped_user": "user"}
"""Arrays whose column in a folder had another name than in the ledger."""
_ROWS = {
    "contribution_cap": "mean_kept",
    "noise_scale_records": "noise_records",
    "variance_cap": "variance_kept",
    "variance_noise": "variance_noise",
    "contribution_factor": "factor",
}


# ---- words of the first builds of format 2 ----


def mended(
    words: Any,  # noqa: ANN401  JSON data
    arrays: Arrays,
    like: Any = None,  # noqa: ANN401  of any kind
    counts: Mapping[str, int] | None = None,
) -> Any:  # noqa: ANN401  JSON data
    """Return words of format 2 as it was until 27 November 2026 in those of today.

    What a range decides stood in a class of its own, printed CLIP-USER was a divisor of sums, and
    suppressed pairs were marks on the pairs at hand.

    Parameters
    ----------
    words : JSON data
    arrays : mapping of str to ndarray
        Marks of suppressed pairs are replaced by lists.
    like : MomentPart, DistributionPart or Plan, optional
        What the marked pairs are those of.
    counts : mapping of str to int, optional
        Numbers of "cells" and "users", of a folder whose table of pairs has the marks.
    """
    if isinstance(words, list):
        return [mended(word, arrays, like, counts) for word in words]
    if not isinstance(words, dict):
        return words
    parts = getattr(like, "components", {}) if "plans" not in words else {}
    words = {
        name: mended(word, arrays, parts.get(name, like), counts) for name, word in words.items()
    }
    nested = words.get(_NESTED.get(str(words.get("is")), ""))
    if isinstance(nested, dict):
        return nested | {"is": words["is"]}
    if words.pop("normaliser", None) == "contributions":
        words["clipping"] = {"is": "ContributedSamples"}
    marks = words.get("suppressed_pairs")
    if isinstance(marks, dict) and "array" in marks:
        name = marks["array"]
        if counts is None:
            local, gone = like.occupancy.local(), arrays.pop(name).astype(bool)
            arrays |= {f"{name}.cell": local.cell[gone], f"{name}.user": local.user[gone]}
            counts = {"cells": local.n_cells, "users": local.n_users}
        sizes = {f"n_{kind}": counts[kind] for kind in ("cells", "users")}
        columns = {column: {"array": f"{name}.{column}"} for column in ("cell", "user")}
        words["suppressed_pairs"] = {"is": "SuppressedPairs"} | columns | sizes
    return words


# ---- bytes of the ledger ----


def made_by(encoded: bytes) -> str:
    """Return the version of hexveil that encoded a plan, in any format."""
    if encoded.startswith(MAGIC):
        return str(unpack_bytes(encoded)[0]["hexveil"])
    words, start = _header(encoded)
    if encoded.startswith(COLUMNS):
        return made_by(encoded[start : start + next(iter(words["sizes"].values()))])
    return str(words["hexveil"])


def _header(encoded: bytes) -> tuple[Words, int]:
    """Return the words before the parts of an encoded plan, and where they end."""
    magic = COLUMNS if encoded.startswith(COLUMNS) else DISTRIBUTION
    start = len(magic) + _SIZE_BYTES
    end = start + int.from_bytes(encoded[len(magic) : start], "little")
    try:
        words: Words = json.loads(encoded[start:end])
    except ValueError:
        raise damaged() from None
    if not encoded.startswith(magic) or not isinstance(words, dict) or "sizes" not in words:
        raise damaged()
    return words, end


def unpack_decisions(
    encoded: bytes,
    like: Any,  # noqa: ANN401  the part of one value column, or the plan of several
    epsilon: str | None = None,
    prefix: str = "",
) -> tuple[Words, Arrays]:
    """Return the decisions of an encoded plan, of the goal and the records of another plan.

    Parameters
    ----------
    encoded : bytes
    like : MomentPart, DistributionPart or Plan
    epsilon : str, optional
        The plan's part of the ε of several columns.
    prefix : str
        Of the names of arrays.
    """
    if encoded.startswith(COLUMNS):
        return _columns(encoded, like)
    if not encoded.startswith(MAGIC):
        words, arrays = _distribution(encoded, like, prefix)
        asked = epsilon or str(like.requested_epsilon)
        return words | {"requested_epsilon": asked}, arrays
    header, arrays = unpack_bytes(encoded)
    arrays = {_RENAMED.get(name, name): array for name, array in arrays.items()}
    counts = like.occupancy.n_cells, like.occupancy.n_users
    if "dropped" in arrays:
        local, dropped = like.occupancy.local(), arrays.pop("dropped").astype(bool)
        arrays |= {"cell": local.cell[dropped], "user": local.user[dropped]}
    asked = epsilon or str(like.request.epsilon)
    request = {} if like.request.epsilon is None else {"epsilon": asked}
    words = _plan_words(header, arrays, counts, prefix) | {"request": {"is": "Request"} | request}
    return words, {prefix + name: array for name, array in arrays.items()}


def _columns(encoded: bytes, like: Plan) -> tuple[Words, Arrays]:
    """Return the plans of all columns, each with its part of ε."""
    head, start = _header(encoded)
    plans: Words = {}
    arrays: Arrays = {}
    for column, size in head["sizes"].items():
        chunk, epsilon = encoded[start : start + size], head["epsilons"][column]
        plans[column], columns = unpack_decisions(
            chunk, like.components[column], epsilon, f"plans.{column}."
        )
        arrays |= columns
        start += size
    return {"is": "ColumnPlans", "plans": plans}, arrays


def _distribution(encoded: bytes, like: DistributionPart, prefix: str) -> tuple[Words, Arrays]:
    """Return the parts of a plan of distributions."""
    head, start = _header(encoded)
    middle = start + head["sizes"][0]
    chunks = encoded[start:middle], encoded[middle : middle + head["sizes"][1]]
    (moment_epsilon, score_epsilon), kind = head["epsilons"], head["component"]
    moments, moment_arrays = _part(chunks[0], moment_epsilon, like.moment_plan, prefix + "moments.")
    scored = like.score_plan
    if scored is None and score_epsilon is not None:
        # Another processor may predict that bins are better.
        scored = plan_moments(
            score_metadata(like.facts),
            PlanArguments(epsilon=Fraction(score_epsilon), delta=like.delta or None),
        )
    scores, score_arrays = _part(chunks[1], score_epsilon, scored, prefix + "scores.")
    if kind not in ("indicator", _RANKS, "bins"):
        raise ValueError("of other scores")
    component = _component_words("ranks" if kind == _RANKS else kind, head, scores)
    words = {"is": "DistributionPlan", "moment_plan": moments, "component": component}
    return words, moment_arrays | score_arrays


def _part(
    chunk: bytes, epsilon: str | None, like: MomentPart | None, prefix: str
) -> tuple[Words | None, Arrays]:
    """Return the plan of means or of mean scores, with its whole request; None if there is none."""
    if epsilon is None or like is None:
        return None, {}
    words, arrays = unpack_decisions(chunk, like, epsilon, prefix)
    request = replace(like.request, epsilon=Fraction(epsilon))
    words["request"] = Codec({}, {}, CODERS).pack(request, ("request",))
    return words | {"baseline_error": like.baseline_error}, arrays


# ---- folders ----


def folder_words(words: Words, names: set[str]) -> Words:
    """Return the contents of plan.json in the words of today.

    Parameters
    ----------
    words : dict
    names : set of str
        Of the columns of its tables.
    """
    figures = {"figures": {"epsilon": words["plan"]["epsilon"]}}
    request = words["request"]
    match words.get("kind"):
        case "columns":
            folders = {
                entry["column"]: {"folder": f"column_{number}", "digest": entry["digest"]}
                for number, entry in enumerate(words["columns"], start=1)
            }
            plan = {"is": "ColumnPlans", "plans": folders, "edition": request["edition"]}
            asked = {"requested_epsilon": request["epsilon"], "weights": request["weights"]}
            return figures | {"plan": plan | asked}
        case "distribution":
            return figures | {"plan": _distribution_words(words), "records": words["records"]}
    counts, facts = words["occupancy"], words["records"]
    # Where pairs are at hand, their table has the counts of all of them.
    if not counts.get("distributed") or "dropped" not in names:
        names -= {"cell", "user"}
    size = counts["cells"], counts["users"]
    targets = {name: {"array": f"target_{name}"} for name in request.pop("targets") or ()}
    asked = {"request": {"is": "Request", **request} | ({"target": targets} if targets else {})}
    plan = _plan_words(words["plan"], names, size) | asked | {"facts": None}
    plan["baseline_error"] = words["plan"]["baseline_error"]
    if facts is not None:
        grid, (lower, upper) = facts.pop("grid"), facts.pop("bounds")
        places = {name: {"array": name} for name in ("hexagon", "slot") if name in names}
        cells = {"grid": grid["columns"] if "columns" in grid else {"is": "Cells"} | grid}
        lattice = {"lower": lower, "upper": upper, "quantum": facts.pop("quantum")}
        plan["facts"] = {
            "is": "PublicMetadata",
            "cells": {"is": "CellTable"} | cells | places,
            "lattice": {"is": "ValueLattice"} | lattice,
            **facts,
        }
    return figures | {"plan": plan, "occupancy": counts}


def _distribution_words(words: Words) -> Words:
    """Return a plan of distributions, with its parts as folders."""
    request, stated, parts = words["request"], words["component"], words["parts"]
    moments, terms = parse_statistics(tuple(request["statistics"]))
    folders = {name: {"folder": name, "digest": digest} for name, digest in parts.items()}
    return {
        "is": "DistributionPlan",
        "moments": list(moments),
        "terms": [term.text for term in terms],
        "requested_epsilon": request["epsilon"],
        "moment_plan": folders.get("moments"),
        "component": _component_words(stated["measured_by"], stated, folders.get("scores")),
        "weights": request["weights"],
        "edition": request["edition"],
        "requested_estimator": request["estimator"],
        "delta": request.get("delta", "0"),
    }


# ---- decisions ----


def _component_words(kind: str, stated: Words, scores: Any) -> Words:  # noqa: ANN401  a part
    """Return how a distribution is measured."""
    if kind == "indicator":
        return {"is": "IndicatorPlan", "plan": scores, "share": stated["share"]}
    shape = {"shape_epsilon": stated["shape_epsilon"]}
    if kind == "ranks":
        return {"is": "RankPlan", "plan": scores} | shape
    error = stated["predicted_error"] if "predicted_error" in stated else stated["error"]
    prices = {"prices": stated["prices"], "floor": stated["floor"], "error": error}
    bins = {"is": "BinPlan", "priced": {"is": "PricedCells"} | prices}
    return bins | shape | {"bin_epsilon": stated["bin_epsilon"]}


def _plan_words(
    old: Words, names: Collection[str], counts: tuple[int, int], prefix: str = ""
) -> Words:
    """Return a plan of means and variances, without its request."""

    def array(name: str) -> Words:
        return {"array": prefix + name}

    suppressed: Words | None = None
    marked = "" if "cell" in names else "dropped."
    if marked[:-1] in names or not marked:
        sizes = dict(zip(("n_cells", "n_users"), counts, strict=True))
        columns = {name: array(marked + name) for name in ("cell", "user")}
        suppressed = {"is": "SuppressedPairs"} | columns | sizes
    allocation: Words = {
        "is": "PlanAllocation",
        **{name: array(column) for name, column in _ROWS.items()},
        "suppressed_pairs": suppressed,
        "lower_bound": old["lower_bound"],
        "bound_kind": old["certifies"],
        "clipping": _clipping_words(old, names, array),
        **{name: old[name] for name in ("mechanism", "cell_epsilon") if name in old},
    }
    bounds = {"lower": array("lower"), "upper": array("upper")}
    return {"is": "Plan", "allocation": allocation} | bounds


def _clipping_words(old: Words, names: Collection[str], array: Any) -> Words:  # noqa: ANN401
    """Return the kind of the clipping range."""
    weight: Words = {"is": "ListedWeights", "weight": array("weight")}
    if "weight_total" in names:
        factors = {"factor": array("weight_factor"), "total": array("weight_total")}
        weight = {"is": "FactoredWeights"} | factors
    if "stages" in old:
        predicted = {"predicted_error": array("predicted_error")}
        return {"is": "SavedStages", "stages": old["stages"], "choices": old["choices"]} | predicted
    if "cell_ranges" in old:
        return {"is": "PerCellRange", "weight": weight, **old["cell_ranges"]}
    interval = old["interval"]
    if interval is None:
        printed = old.get("normaliser") == "contributions"
        return {"is": "ContributedSamples" if printed else "WithinBounds"}
    renamed = {"stretch": "widening", "clipped": "clipping_error"}
    named = {renamed.get(name, name): word for name, word in interval.items()}
    return {"is": "PrivateRange", "weight": weight} | named
