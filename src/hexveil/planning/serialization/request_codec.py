"""Requests of saved plans as words: options, exact numbers and the mechanism's text."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from hexveil.base.errors import InputError
from hexveil.base.rational import decimal_text
from hexveil.mechanisms import Baseline, CellMechanism, OptimalClipping, parse
from hexveil.planning.approximate.delta_request import check_delta_request
from hexveil.planning.clipping_range.private_range import ClippingRangeMode
from hexveil.planning.request import (
    PURE,
    ClipUserForm,
    ErrorKind,
    ExemptCell,
    Method,
    Objective,
    Request,
    UnfinishedStage,
    statistics,
)
from hexveil.planning.serialization.words import Words, one_of, optional, positive

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from hexveil.mechanisms import ThresholdMechanism

MECHANISMS: dict[str, ThresholdMechanism] = {m.name: m for m in (Baseline(), OptimalClipping())}
"""Mechanisms with a fast path; the texts of others are read as they are written in a table."""


def request_words(request: Request) -> Words:
    """Return the request as words; the targets themselves are arrays of cells."""
    name = request.mechanism.name
    # A name may be borrowed: equality makes sure that what is read back plans the same.
    if _is_foreign(request.mechanism):
        raise InputError(
            f"a saved plan's mechanism must be one of hexveil's, got {name}; "
            "release such a plan without saving it."
        )
    return {
        "method": request.method,
        "mechanism": name,
        "statistics": list(request.statistics),
        "objective": request.objective,
        "error": request.error,
        "split": optional(decimal_text, request.split),
        "epsilon": optional(decimal_text, request.epsilon),
        "targets": None if request.target is None else list(request.target),
        "clipping_range": request.clipping_range,
        "range_share": optional(decimal_text, request.range_share),
        "edition": request.edition,
        "clip_user": request.clip_user,
        "cell_epsilon": optional(decimal_text, request.cell_epsilon),
        "unfinished_stage": request.unfinished_stage,
        # Plans without these options keep the words that they had before there were any.
        **({} if request.exempt == "smallest" else {"exempt": request.exempt}),
        **({"delta": decimal_text(request.delta)} if request.delta else {}),
    }


def _mechanism_from(name: str) -> ThresholdMechanism | CellMechanism:
    """Return the mechanism of a name that this package knows."""
    return MECHANISMS[name] if name in MECHANISMS else parse(name)


def _is_foreign(mechanism: ThresholdMechanism | CellMechanism) -> bool:
    """Return whether a mechanism's name brings another one back, or none."""
    try:
        return _mechanism_from(mechanism.name) != mechanism
    except InputError:
        return True


def request_from(words: Words, targets: Mapping[str, NDArray[np.float64]]) -> Request:
    """Return the checked request; InputError for one that no plan may have."""
    error = one_of(words["error"], get_args(ErrorKind))
    names = words["targets"]
    request = Request(
        method=one_of(words["method"], get_args(Method)),
        mechanism=_mechanism_from(words["mechanism"]),
        statistics=statistics(words["statistics"], error),
        objective=one_of(words["objective"], get_args(Objective)),
        error=error,
        split=optional(positive, words["split"]),
        epsilon=optional(positive, words["epsilon"]),
        target=None
        if names is None
        else {one_of(name, ("mean", "variance", "sum")): targets[name] for name in names},
        clipping_range=one_of(words["clipping_range"], get_args(ClippingRangeMode)),
        range_share=optional(positive, words["range_share"]),
        edition=optional(str, words["edition"]),
        # Plans saved before CLIP-USER had two forms have no such words.
        clip_user=one_of(words.get("clip_user", "improved"), get_args(ClipUserForm)),
        cell_epsilon=optional(positive, words.get("cell_epsilon")),
        unfinished_stage=one_of(words.get("unfinished_stage", "keep"), get_args(UnfinishedStage)),
        exempt=one_of(words.get("exempt", "smallest"), get_args(ExemptCell)),
        delta=optional(positive, words.get("delta")) or PURE,
    )
    if request.delta:
        # What a δ goes with may be less than what the words of a folder say.
        check_delta_request(request)
    limits = request.epsilon, request.target, request.cell_epsilon
    if sum(limit is not None for limit in limits) != 1:
        raise InputError("it must ask for either a loss or targets.")
    return request
