"""Checks of a request for means and variances: unknown words, and options that exclude others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypedDict, get_args

from hexveil.accounting.gaussian_composition import to_delta
from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_fraction, to_positive_fraction
from hexveil.mechanisms import CellMechanism, OptimalClipping, ThresholdMechanism, parse
from hexveil.planning.methods import METHODS
from hexveil.planning.request import (
    ClippingRangeMode,
    ClipUserForm,
    ErrorKind,
    ExemptCell,
    Method,
    Objective,
    Request,
    UnfinishedStage,
    WithinEpsilon,
    check_delta_request,
    no_variances,
    split_of,
    target_of,
)
from hexveil.planning.request import statistics as asked_statistics

if TYPE_CHECKING:
    from fractions import Fraction

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class MomentOptions:
    """Options of `hexveil.plan` for means and variances, as a caller gives them: see there."""

    target_error: object = None
    bounds: object = None
    method: Method = "joint"
    mechanism: ThresholdMechanism | CellMechanism | str | None = None
    objective: Objective | None = None
    error: ErrorKind | None = None
    split: Number | None = None
    clipping_range: ClippingRangeMode = "auto"
    range_share: Number | None = None
    clip_user: ClipUserForm = "improved"
    cell_epsilon: Number | None = None
    unfinished_stage: UnfinishedStage | None = None
    exempt: ExemptCell | None = None
    delta: Number | None = None

    def given(self) -> tuple[str, ...]:
        """Return the names of the options that were given."""
        return tuple(
            one.name
            for one in fields(self)
            if (value := getattr(self, one.name)) is not one.default
            # Arrays have no single truth of equality: words alone are compared.
            and not (isinstance(value, str) and value == one.default)
        )

    @property
    def single_mechanism(self) -> ThresholdMechanism | CellMechanism | None:
        """Mechanism of one cell; None unless one is named."""
        return parse(self.mechanism) if isinstance(self.mechanism, str) else self.mechanism

    def request(
        self,
        epsilon: Number | None,
        statistics: Sequence[str] | str | None,
        edition: str | None,
        cells: tuple[NDArray[np.float64], tuple[str, ...]],
    ) -> Request:
        """Return the checked request.

        Parameters
        ----------
        epsilon, statistics, edition
            As `hexveil.plan` has them.
        cells : pair of ndarray of float, shape (n_cells,), and tuple of str
            Width of each cell's bounds, and the cells' names.

        Raises
        ------
        InputError
            Naming the option that is wrong, or excludes another.
        """
        mechanism = self.single_mechanism
        # As printed, CLIP-USER judges a cell by the sum of both errors.
        error = self.error or ("sum" if self.clip_user == "printed" else "separate")
        request = _limited(
            Request(
                method=self.method,
                mechanism=mechanism or OptimalClipping(),
                statistics=asked_statistics(statistics, error),
                objective=self.objective or _usual(self.method, self.target_error),
                error=error,
                split=split_of(self.split),
                clipping_range=self.clipping_range,
                range_share=_share(self.range_share, self.clipping_range),
                edition=check_edition(edition),
                delta=to_delta(self.delta),
                exempt=self.exempt or "smallest",
                **_form_of_clip_user(
                    self.clip_user, (epsilon, self.cell_epsilon), self.unfinished_stage
                ),
            ),
            epsilon,
            self.target_error,
            cells,
        )
        if self.exempt is not None and self.method != "clip-user":
            raise InputError(f'exempt goes with method "clip-user", not with {self.method!r}.')
        _check_words(request, mechanism)
        # After the words: "auto" must not hide an unknown one.
        request = _with_interval(request, self.bounds)
        if request.delta:
            check_delta_request(request)
        return request


class _ClipUserFields(TypedDict):
    """Fields of a request that the form of CLIP-USER decides."""

    clip_user: ClipUserForm
    cell_epsilon: Fraction | None
    unfinished_stage: UnfinishedStage


def check_edition(edition: str | None) -> str | None:
    """Return the name of an edition; refuse anything else."""
    if edition is not None and not (isinstance(edition, str) and edition.strip()):
        raise InputError(f"edition must be a name such as '2', got {edition!r}.")
    return edition


def _usual(method: str, target: object) -> Objective:
    """Return the objective unless one is named."""
    # A target holds for every cell unless the caller says otherwise.
    return "mean" if method == "joint" and target is None else "max"


def _limited(
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
        raise one_limit()
    if epsilon is not None:
        return replace(request, epsilon=to_positive_fraction(epsilon, "epsilon"))
    goals = target_of(target, request.noised, request.error, *cells)
    return replace(request, target=goals)


def one_limit() -> InputError:
    """Return the error for a plan with both limits, or with neither."""
    return InputError(
        "a plan needs either epsilon (the loss to stay within) or target_error (the errors to "
        "stay within); give exactly one of them."
    )


def _check_words(request: Request, mechanism: ThresholdMechanism | CellMechanism | None) -> None:
    """Refuse unknown words, and pairs of arguments without meaning."""
    for name, word, choices in (
        ("method", request.method, METHODS),
        ("clip_user", request.clip_user, get_args(ClipUserForm)),
        ("unfinished_stage", request.unfinished_stage, get_args(UnfinishedStage)),
        ("exempt", request.exempt, get_args(ExemptCell)),
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
    """Refuse statistics that a mechanism with stages of its own does not publish."""
    if request.noised != ("mean",):
        raise no_variances()
    if not isinstance(request.limit, WithinEpsilon):
        raise InputError(
            f"{request.mechanism.name} is planned within epsilon, not target_error: most of its "
            "errors are predictions; Baseline() and OptimalClipping() take targets."
        )


def _form_of_clip_user(
    form: ClipUserForm,
    losses: tuple[Number | None, Number | None],
    unfinished_stage: UnfinishedStage | None,
) -> _ClipUserFields:
    """Return the fields of a form of CLIP-USER; refuse those of the other form."""
    epsilon, cell_epsilon = losses
    is_printed = form == "printed"
    if is_printed and epsilon is not None:
        stated_epsilon = 1 if cell_epsilon is None else cell_epsilon
        raise InputError(
            'clip_user="printed" takes the loss of one cell in place of epsilon, which follows '
            f"from it: leave out epsilon={epsilon} and give cell_epsilon={stated_epsilon}."
        )
    if is_printed != (cell_epsilon is not None):
        raise InputError(
            'clip_user="printed" needs the loss of one cell, such as cell_epsilon=1, and nothing '
            "else has it."
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
    """Refuse the printed form of CLIP-USER with options unknown to the paper."""
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


def _share(share: Number | None, clipping_range: str) -> Fraction | None:
    if share is None:
        return None
    if clipping_range == "bounds":
        raise InputError('range_share goes with clipping_range other than "bounds".')
    asked = to_fraction(share, "range_share")
    if not 0 < asked < 1:
        raise InputError(
            f"range_share is the part of epsilon that finds the interval, between 0 and 1, got "
            f"{asked}: at 0 there is no interval, at 1 nothing is left for the cells."
        )
    return asked


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
