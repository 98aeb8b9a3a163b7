"""The public door of planning: arguments in, a plan out, and a warning if it says too little."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypedDict, cast, get_args, overload, runtime_checkable

import numpy as np

from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_bounds, to_fraction, to_positive_fraction
from hexveil.mechanisms import CellMechanism, OptimalClipping, ThresholdMechanism, parse
from hexveil.model.declared_facts import DeclaredFacts
from hexveil.model.public_metadata import PublicMetadata
from hexveil.planning import cell_mechanism_errors
from hexveil.planning.clipping_range.private_range import ClippingRangeMode, check_share
from hexveil.planning.feasibility.advice import GridTooFineWarning, brief_advice
from hexveil.planning.feasibility.utility_test import default_baseline_error
from hexveil.planning.guarantees import PlanningProblem
from hexveil.planning.methods import METHODS, allocate
from hexveil.planning.plan import Plan
from hexveil.planning.presence.presence_plan import PresencePlan, plan_presence
from hexveil.planning.request import (
    ClipUserForm,
    ErrorKind,
    Method,
    Objective,
    Request,
    UnfinishedStage,
    WithinEpsilon,
    split_of,
    target_of,
)
from hexveil.planning.request import statistics as asked_statistics

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from hexveil.model.occupancy import Occupancy
    from hexveil.planning.presence.presence_request import FleetDeclaration


class _ClipUserFields(TypedDict):
    """Fields of a request that the form of CLIP-USER decides."""

    clip_user: ClipUserForm
    cell_epsilon: Fraction | None
    unfinished_stage: UnfinishedStage


@runtime_checkable
class HasDeclaredFacts(Protocol):
    """Anything that carries declared facts, such as a data set with private presence."""

    @property
    def public(self) -> DeclaredFacts:
        """All that a plan may see."""


@runtime_checkable
class HasPublicMetadata(Protocol):
    """Anything that carries public facts, such as a data set."""

    @property
    def public(self) -> PublicMetadata:
        """All that a plan may see."""


@overload
def plan(
    source: DeclaredFacts | HasDeclaredFacts,
    *,
    epsilon: Number | None = ...,
    statistics: Sequence[str] | str | None = ...,
    edition: str | None = ...,
    baseline_error: Number | None = ...,
    advise: bool = ...,
    fleet: FleetDeclaration | int | None = ...,
    user_cap: int | str | None = ...,
    delta: Number | None = ...,
) -> PresencePlan: ...


@overload
def plan(
    source: Occupancy | PublicMetadata | HasPublicMetadata,
    *,
    epsilon: Number | None = ...,
    target_error: object = ...,
    bounds: object = ...,
    statistics: Sequence[str] | str | None = ...,
    method: Method = ...,
    mechanism: ThresholdMechanism | CellMechanism | str | None = ...,
    objective: Objective | None = ...,
    error: ErrorKind | None = ...,
    split: Number | None = ...,
    clipping_range: ClippingRangeMode = ...,
    range_share: Number | None = ...,
    clip_user: ClipUserForm = ...,
    cell_epsilon: Number | None = ...,
    unfinished_stage: UnfinishedStage | None = ...,
    edition: str | None = ...,
    baseline_error: Number | None = ...,
    advise: bool = ...,
    fleet: None = ...,
    user_cap: None = ...,
    delta: None = ...,
) -> Plan: ...


def plan(  # noqa: PLR0913  a public door; keyword-only
    source: Occupancy | PublicMetadata | HasPublicMetadata | DeclaredFacts | HasDeclaredFacts,
    *,
    epsilon: Number | None = None,
    target_error: object = None,
    bounds: object = None,
    statistics: Sequence[str] | str | None = None,
    method: Method = "joint",
    mechanism: ThresholdMechanism | CellMechanism | str | None = None,
    objective: Objective | None = None,
    error: ErrorKind | None = None,
    split: Number | None = None,
    clipping_range: ClippingRangeMode = "auto",
    range_share: Number | None = None,
    clip_user: ClipUserForm = "improved",
    cell_epsilon: Number | None = None,
    unfinished_stage: UnfinishedStage | None = None,
    edition: str | None = None,
    baseline_error: Number | None = None,
    advise: bool = True,
    fleet: FleetDeclaration | int | None = None,
    user_cap: int | str | None = None,
    delta: Number | None = None,
) -> Plan | PresencePlan:
    """Return a plan for all cells together: within a loss, or within planning errors.

    Only public facts enter: occupancy, bounds, the loss or the targets, and the prior. Nothing is
    spent. Of records that were read with protect="presence" only what was declared enters, the
    result is a `PresencePlan`, and the arguments are epsilon, fleet, statistics ("mean" or
    "users"), user_cap, delta, baseline_error and edition.

    Parameters
    ----------
    source : Dataset, PublicMetadata, Occupancy, PrivateDataset or DeclaredFacts
        Of a data set only its public facts are looked at.
    epsilon : int, str, Decimal, Fraction or float
        Largest loss of any privacy unit, over all its cells. Either this or `target_error`.
    target_error : number, text like "10%", sequence or mapping
        Planning errors to stay within at the least loss: in value units (squared ones for the
        variance), or a percentage of the span (of its square); one for all cells, one per cell
        (sequence, or mapping of cell name), or a mapping of statistic to any of these.
    bounds : pair of numbers, or mapping of cell name to pair, optional
        Default: those the records were read with.
    statistics : tuple of str, optional
        Some of "mean", "variance", "sd" (the root of the variance, at no further cost). Default
        the mean; with `error="sum"` mean and variance.
    method : "joint", "per-cell", "equal-split" or "clip-user"
        A factor for each user and the noise of each cell, chosen together; every cell planned
        alone at one common loss, the largest whose exact loss is within `epsilon`, or `epsilon`
        divided by the most cells of a user; users suppressed by CLIP-USER.
    mechanism : mechanism, or its text like "Levy(gamma=0.2)"
        How one cell is planned, for "per-cell" and "equal-split"; default OptimalClipping(). With
        others than OptimalClipping and Baseline: the mean alone, within `epsilon`, in the bounds
        that the records were read with.
    objective : "max" or "mean"
        Whether the largest or the average planning error over cells is made small, or kept
        within the targets. Default: the average within `epsilon`, the largest with targets, so that
        every cell meets its own. With both statistics, errors are judged as shares of what a
        constant can miss.
    error : "separate" or "sum"
        "sum" adds value units to squared ones, as COMP eq. (12) does: for reproduction only.
        Default "separate", and "sum" for CLIP-USER as printed.
    split : number, optional
        The mean's part of a cell's loss, for the methods that plan cells apart and for variances
        under a private interval; default the best, by prediction.
    clipping_range : "auto", "per-cell", "bounds", "private" or "two-stage"
        "bounds" clips to the public bounds alone. "private" finds one interval for user means
        privately, from a small share of ε, projects user means to it, and weighs users so that the
        predicted error is small (docs/understand/clipping-range.md); within `epsilon`, by the joint
        method. "two-stage" adds narrower ranges in a second step, for means: around users' own
        means or around cells', whichever is predicted to be better once the first steps are known.
        "per-cell" gives each cell a range by a first noisy look at it, for means. "auto" takes the
        least predicted error of "bounds" and "per-cell" for means where there are several cells and
        users enough, else of the other three; with targets, bounds of the caller's own or another
        method or objective it is "bounds".
    range_share : number, optional
        Part of ε that finds the interval; default from the number of users.
    clip_user : "improved" or "printed"
        Form of the method "clip-user". "improved" puts what is suppressed at the middle of the
        bounds, splits each cell's loss best, charges exact losses and spends all of `epsilon`.
        "printed" is COMP's Algorithm 1 with the caps of its section V-B.3, errata mended: a loss
        per cell, half for each statistic, and suppressed users left out of a cell's average.
    cell_epsilon : number, optional
        For `clip_user="printed"`, in place of `epsilon`: the loss of one cell.
        `Plan.l0_epsilon` is the paper's loss K times it, `Plan.epsilon` the exact one.
    unfinished_stage : "keep" or "undo", optional
        For `clip_user="printed"`: whether the suppressions of the stage that was halted stay, as
        printed, or are undone. Default "keep".
    edition : str, optional
        A name of your own. The same goal asked again gets the plan that was booked first; under
        another edition it is another request, which is planned anew and paid again.
    baseline_error : number, optional
        What one constant for all cells is assumed to miss on average, in value units, at most half
        the span; default span / 20. It comes from outside the records, never from their values.
    advise : bool
        Warn when the grid is too fine, with an epsilon that is enough. `hv.capacity` finds grids
        that are not.
    fleet : int or FleetDeclaration, optional
        For private presence: the declared number of units, which no record decides.
    user_cap : int, "private" or "none", optional
        For private presence: records from which on a unit has its full weight; declared, or found
        privately for large fleets. Default none.
    delta : int, str, Decimal, Fraction or float, optional
        For private presence: promises (ε, δ) with Gaussian noise, for numbers or averages of units
        in many cells. Far below 1 / fleet, such as "1e-6". Default a pure promise.

    Raises
    ------
    InputError
        On a bad argument, named; nothing is spent.

    Warns
    -----
    GridTooFineWarning
        If the map would say no more than one constant for all cells.

    Examples
    --------
    >>> from hexveil import Occupancy
    >>> from hexveil import Occupancy
    >>> crowd = Occupancy.from_dense([[1]] * 100)
    >>> made = plan(crowd, bounds=(0, 10), epsilon=2)
    >>> made.expected_error
    0.05...
    >>> float(plan(crowd, bounds=(0, 10), target_error="0.5%").epsilon)
    2.0...
    """
    declared = _declared_side(source)
    if declared is not None:
        _refuse_public_options(
            target_error=target_error, bounds=bounds, mechanism=mechanism, objective=objective,
            error=error, split=split, range_share=range_share, cell_epsilon=cell_epsilon,
            unfinished_stage=unfinished_stage, method=None if method == "joint" else method,
            clipping_range=None if clipping_range == "auto" else clipping_range,
            clip_user=None if clip_user == "improved" else clip_user,
        )  # fmt: skip
        made = plan_presence(
            declared, epsilon=epsilon, fleet=fleet, statistics=statistics, user_cap=user_cap,
            baseline_error=baseline_error, edition=_edition(edition), delta=delta,
        )  # fmt: skip
        if advise and made.refusal is not None:
            warnings.warn(made.refusal, GridTooFineWarning, stacklevel=2)
        return made
    if delta is not None:
        raise InputError(
            'delta goes with protect="presence"; leave it out: where values alone are protected, '
            "users are in few cells, in which a pure promise has less noise."
        )
    if fleet is not None or user_cap is not None:
        raise InputError(
            'fleet and user_cap go with protect="presence"; leave them out, since the units are '
            "counted here."
        )
    # As printed, CLIP-USER judges a cell by the sum of both errors.
    error = error or ("sum" if clip_user == "printed" else "separate")
    occupancy, facts = _public_side(cast("Occupancy | PublicMetadata | HasPublicMetadata", source))
    if not occupancy.n_cells:
        raise InputError("there is no cell to plan.")
    lower, upper = _bounds(bounds, facts, occupancy)
    # Checked before planning: a bad argument must not cost minutes first.
    miss = default_baseline_error(lower, upper, baseline_error)
    names = facts.cells.names() if facts is not None else _numbers(occupancy)
    mechanism = parse(mechanism) if isinstance(mechanism, str) else mechanism
    request = _request(
        Request(
            method=method,
            mechanism=mechanism or OptimalClipping(),
            statistics=asked_statistics(statistics, error),
            objective=objective or _usual(method, target_error),
            error=error,
            split=split_of(split),
            clipping_range=clipping_range,
            range_share=_share(range_share, clipping_range),
            edition=_edition(edition),
            **_form_of_clip_user(clip_user, cell_epsilon, unfinished_stage),
        ),
        epsilon,
        target_error,
        (upper - lower, names),
    )
    _check_words(request, mechanism)
    # After the words: "auto" must not hide an unknown one.
    request = _with_interval(request, bounds)
    result = Plan(
        occupancy=occupancy,
        lower=lower,
        upper=upper,
        allocation=allocate(PlanningProblem(occupancy, upper - lower, request, facts)),
        request=request,
        baseline_error=miss,
        facts=facts,
    )
    # Without a search: looking for grids takes longer than the plan.
    if advise and not result.support.beats_constant:
        warnings.warn(brief_advice(result), GridTooFineWarning, stacklevel=2)
    return result


def _declared_side(source: object) -> DeclaredFacts | None:
    """Return the declared facts of records with private presence; None for other sources."""
    facts = getattr(source, "public", source)
    return facts if isinstance(facts, DeclaredFacts) else None


def _refuse_public_options(**options: object) -> None:
    """Refuse arguments that have no meaning under private presence."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InputError(
            f'{given[0]} has no meaning with protect="presence"; leave it out (docs/use/'
            "private-presence.md lists what can be chosen)."
        )


def _usual(method: str, target: object) -> Objective:
    """Return the objective unless one is named."""
    # A target holds for every cell unless the caller says otherwise.
    return "mean" if method == "joint" and target is None else "max"


def _request(
    request: Request,
    epsilon: Number | None,
    target: object,
    cells: tuple[NDArray[np.float64], tuple[str, ...]],
) -> Request:
    """Return the request with its loss or its targets; refuse both and neither."""
    if request.cell_epsilon is not None:
        if epsilon is not None or target is not None:
            raise InputError("cell_epsilon takes the place of epsilon and target_error.")
        return request
    if (epsilon is None) == (target is None):
        raise InputError(
            "a plan needs either epsilon (the loss to stay within) or target_error (the errors to "
            "stay within); give exactly one of them."
        )
    if epsilon is not None:
        return replace(request, epsilon=to_positive_fraction(epsilon, "epsilon"))
    goals = target_of(target, request.noised, request.error, *cells)
    return replace(request, target=goals)


def _check_words(request: Request, mechanism: ThresholdMechanism | CellMechanism | None) -> None:
    """Refuse unknown words, and pairs of arguments without meaning."""
    for name, word, choices in (
        ("method", request.method, METHODS),
        ("clip_user", request.clip_user, get_args(ClipUserForm)),
        ("unfinished_stage", request.unfinished_stage, get_args(UnfinishedStage)),
        ("objective", request.objective, get_args(Objective)),
        ("error", request.error, get_args(ErrorKind)),
        ("clipping_range", request.clipping_range, get_args(ClippingRangeMode)),
    ):
        if word not in choices:
            raise InputError(f"{name} must be one of {', '.join(choices)}, got {word!r}.")
    if not isinstance(request.mechanism, (ThresholdMechanism, CellMechanism)):
        raise InputError(
            f"mechanism must be a mechanism of one cell, such as Levy(gamma=0.2), "
            f"got {request.mechanism!r}."
        )
    is_per_cell = request.method in ("per-cell", "equal-split")
    if mechanism is not None and not is_per_cell:
        raise InputError(
            f'mechanism goes with method "per-cell" or "equal-split", not with {request.method!r}.'
        )
    _check_clip_user(request)
    _check_split(request)
    by_epsilon = isinstance(request.limit, WithinEpsilon)
    if not isinstance(request.mechanism, ThresholdMechanism):
        _check_cell_mechanism(request)
    if request.objective == "mean" and request.method != "joint" and by_epsilon:
        raise InputError(
            f'objective "mean" goes with method "joint" or a target, not with {request.method!r}.'
        )
    if request.error == "sum" and len(request.noised) < 2:
        raise InputError(
            'error "sum" adds the errors of mean and variance; ask for both in statistics.'
        )


def _check_cell_mechanism(request: Request) -> None:
    """Refuse what a mechanism with stages of its own does not publish."""
    if request.noised != ("mean",):
        raise cell_mechanism_errors.no_variances()
    if not isinstance(request.limit, WithinEpsilon):
        raise InputError(
            f"{request.mechanism.name} is planned within epsilon, not target_error: most of its "
            "errors are predictions; Baseline() and OptimalClipping() take targets."
        )


def _form_of_clip_user(
    form: ClipUserForm, cell_epsilon: Number | None, unfinished_stage: UnfinishedStage | None
) -> _ClipUserFields:
    """Return the fields of a form of CLIP-USER; refuse those of the other form."""
    is_printed = form == "printed"
    if is_printed != (cell_epsilon is not None):
        raise InputError(
            'clip_user="printed" needs cell_epsilon, the loss of one cell, and nothing else has it.'
        )
    if unfinished_stage is not None and not is_printed:
        raise InputError('unfinished_stage goes with clip_user="printed".')
    return {
        "clip_user": form,
        "cell_epsilon": None
        if cell_epsilon is None
        else to_positive_fraction(cell_epsilon, "cell_epsilon"),
        "unfinished_stage": unfinished_stage or "keep",
    }


def _check_clip_user(request: Request) -> None:
    """Refuse the printed form of CLIP-USER with what the paper does not have."""
    if request.clip_user != "printed":
        return
    if request.method != "clip-user":
        raise InputError(f'clip_user goes with method "clip-user", not with {request.method!r}.')
    if request.error != "sum" or len(request.noised) < 2:
        raise InputError(
            'clip_user="printed" publishes means and variances and adds their errors; leave out '
            "error, and ask for both in statistics."
        )
    if request.split is not None:
        raise InputError('clip_user="printed" splits a cell\'s loss in halves; leave out split.')


def _check_split(request: Request) -> None:
    """Refuse a split where there is no second statistic, or where the joint plan finds its own."""
    if request.split is None or (
        request.clipping_range != "bounds" and "variance" in request.noised
    ):
        return
    if request.method == "joint" or len(request.noised) < 2:
        raise InputError(
            "split goes with a method that plans cells apart and with statistics of both kinds, or "
            f"with a variance under a private interval; got method {request.method!r} and "
            f"statistics {', '.join(request.statistics)}."
        )


def _edition(edition: str | None) -> str | None:
    """Return the name of an edition; refuse anything else."""
    if edition is not None and not (isinstance(edition, str) and edition.strip()):
        raise InputError(f"edition must be a name such as '2', got {edition!r}.")
    return edition


def _share(share: Number | None, clipping_range: str) -> Fraction | None:
    if share is None:
        return None
    if clipping_range == "bounds":
        raise InputError('range_share goes with clipping_range other than "bounds".')
    return check_share(to_fraction(share, "range_share"))


def _with_interval(request: Request, bounds: object) -> Request:
    """Return the request; refuse options that a private range excludes.

    "auto" then is "bounds".
    """
    if request.clipping_range == "bounds":
        return request
    conflict = request.interval_needs
    if conflict is None and isinstance(bounds, Mapping):
        conflict = "one pair of bounds for all cells"
    elif conflict is None and request.clipping_range == "auto" and bounds is not None:
        conflict = "the bounds that the records were read with"
    if conflict is None:
        return request
    if request.clipping_range == "auto":
        # Options of a private range are not dropped in silence where there can be none.
        if request.range_share is not None:
            raise InputError(
                f"range_share goes with a private range, and a private range with {conflict}."
            )
        within_bounds = replace(request, clipping_range="bounds")
        _check_split(within_bounds)
        return within_bounds
    raise InputError(f"clipping_range {request.clipping_range!r} goes with {conflict}.")


def _numbers(occupancy: Occupancy) -> tuple[str, ...]:
    return tuple(str(i) for i in range(occupancy.n_cells))


def _public_side(
    source: Occupancy | PublicMetadata | HasPublicMetadata,
) -> tuple[Occupancy, PublicMetadata | None]:
    """Return the occupancy of a source, and its public metadata if it has more to tell."""
    if isinstance(source, PublicMetadata):
        return source.occupancy, source
    if isinstance(source, HasPublicMetadata):
        return source.public.occupancy, source.public
    # isinstance of a protocol with properties would compute them: one method tells.
    if not hasattr(source, "map_cells"):
        raise InputError(
            f"a plan is made for a data set or an occupancy, got {type(source).__name__}."
        )
    return source, None


def _bounds(
    bounds: object, facts: PublicMetadata | None, occupancy: Occupancy
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper bound of each cell."""
    if bounds is None:
        if facts is None:
            raise InputError("bounds are needed to plan a bare occupancy, like bounds=(0, 65).")
        pairs = [(facts.lattice.lower, facts.lattice.upper)]
    elif isinstance(bounds, Mapping):
        pairs = [to_bounds(_of_cell(bounds, name), f"bounds of {name}") for name in _names(facts)]
    else:
        pairs = [to_bounds(bounds)]
    if facts is not None:
        _check_inside(pairs, facts)
    ends = np.array([[float(low), float(high)] for low, high in pairs], dtype=np.float64)
    full = np.broadcast_to(ends, (occupancy.n_cells, 2))
    return full[:, 0].copy(), full[:, 1].copy()


def _names(facts: PublicMetadata | None) -> tuple[str, ...]:
    if facts is None:
        raise InputError("bounds by cell need a data set whose cells have names.")
    return facts.cells.names()


def _of_cell(bounds: Mapping[str, object], name: str) -> object:
    if name not in bounds:
        raise InputError(f"bounds by cell leave out the cell {name}; give a pair for each.")
    return bounds[name]


def _check_inside(pairs: list[tuple[Fraction, Fraction]], facts: PublicMetadata) -> None:
    for low, high in pairs:
        facts.lattice.to_quanta(low, "lower bound")
        facts.lattice.to_quanta(high, "upper bound")
