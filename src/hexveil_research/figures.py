"""The Python door of `hexveil reproduce`: the papers' figures of anyone's data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hexveil.base.errors import InputError
from hexveil.base.rational import Number, to_bounds, to_positive_fraction
from hexveil.mechanisms.priors import ValueDistribution
from hexveil.records.dataset import Dataset
from hexveil.simulation.own_cells import CellSelector
from hexveil_research.papers import itms, study_data
from hexveil_research.papers.comp import busiest_hour
from hexveil_research.papers.comp_setting import comp_setting
from hexveil_research.papers.running import Report
from hexveil_research.papers.study import (
    PAPER_BOUNDS,
    Outcome,
    Setting,
    Study,
    select_altered,
    select_studies,
)

if TYPE_CHECKING:
    from hexveil import Occupancy

    Counts = str | Path | NDArray[np.int64] | Occupancy


def figure_setting(  # noqa: PLR0913  the options of the command, by the same names
    *,
    counts: Counts | None = None,
    data: Dataset | None = None,
    cell: CellSelector = None,
    built_in: str | None = None,
    name: str = "own records",
    values: ValueDistribution | None = None,
    bounds: object = None,
    epsilons: Sequence[Number] | None = None,
    gamma: int | None = None,
    q: float | None = None,
    scale: int | None = None,
    trials: int = 10_000,
    seed: int = 0,
) -> Setting:
    """Return a setting of the papers' figures; omitted parts are as in the papers.

    Parameters
    ----------
    counts : path, array_like of int or Occupancy, optional
        Samples per user of one cell, or of several: see `study_data.of_counts`. Public.
    data : Dataset, optional
        Own records, as `hexveil.read` returns them.
    cell : str, int or tuple, optional
        Of `data`, by name, number or parts, for figures on one cell; by default the fullest one.
    built_in : {"itms", "synthetic", "surat"}, optional
        A set of the papers' kind.
    name : str
        Of `data`, for titles.
    values : ValueDistribution, optional
        Simulated values, drawn once per draw of the data.
    bounds : pair of numbers, optional
        Of a value; `data` has its own. U is the difference.
    epsilons : sequence of numbers, optional
        In ascending order.
    gamma, q : numbers, optional
        Of COMP's synthetic set: see `comp_setting`.
    scale : int, optional
        λ of sample scaling and user scaling.
    trials, seed : int

    Raises
    ------
    InputError
        On arguments that exclude each other, or are out of range.

    Privacy
    -------
    Figures that read the values of `data` are private, and every file of them says so.
    """
    sources = {"counts": counts, "data": data, "built_in": built_in}
    named = [source for source, given_data in sources.items() if given_data is not None]
    if len(named) > 1:
        raise InputError(f"{named[0]} and {named[1]} cannot be combined: use one of them.")
    if cell is not None and data is None:
        raise InputError("cell needs data: pass the data set of the cell, or omit cell.")
    if bounds is not None and data is not None:
        raise InputError("data and bounds cannot be combined: the records have their own.")
    _check_numbers(gamma, q, scale)
    study = None
    if counts is not None:
        study = study_data.of_counts(counts)
    elif data is not None:
        study = study_data.of_records(data, name, cell)
    elif built_in is not None:
        study = built_in_set(built_in, seed)
    pair = None if bounds is None else to_bounds(bounds)
    if study is not None and pair is not None:
        study = replace(study, bounds=pair)
    return Setting(
        trials=trials,
        seed=seed,
        data=study,
        values=values,
        bounds=pair,
        epsilons=None if epsilons is None else losses(epsilons),
        gamma=gamma,
        q=q,
        scale=scale,
    )


def built_in_set(name: str, seed: int = 0) -> study_data.StudyData:
    """Return a built-in set: "itms", "synthetic" (COMP's) or "surat" (a simulated hour)."""
    if name == "itms":
        counts = itms.counts(seed)
        means = itms.mixed_means(counts, seed)
        return study_data.StudyData(
            "ITMS-like cell", study_data.one_cell(counts), PAPER_BOUNDS, means
        )
    if name == "synthetic":
        return study_data.fullest(study_data.StudyData("synthetic set", comp_setting(0, seed)))
    if name == "surat":
        dataset = busiest_hour.simulated_dataset(seed)
        return replace(study_data.of_records(dataset, "simulated hour like Surat"), private=False)
    raise InputError(f"there is no built-in set {name!r}; name one of itms, synthetic, surat.")


def losses(epsilons: Sequence[Number]) -> tuple[str, ...]:
    """Return values of ε as text, in ascending order."""
    exact = sorted({to_positive_fraction(epsilon, "epsilon") for epsilon in epsilons})
    if not exact:
        raise InputError("epsilon must be a list of at least one number, got none.")
    return tuple(f"{float(epsilon):.12g}" for epsilon in exact)


def _check_numbers(gamma: int | None, q: float | None, scale: int | None) -> None:
    if gamma is not None and gamma < 0:
        raise InputError(f"gamma must be at least 0, got {gamma}.")
    if q is not None and not 0 < q <= 1:
        raise InputError(f"q must be above 0 and at most 1, got {q}.")
    if scale is not None and scale < 1:
        raise InputError(f"scale must be at least 1, got {scale}.")


def chosen_studies(
    studies: Sequence[Study], names: Sequence[str], setting: Setting
) -> tuple[Study, ...]:
    """Return the studies of these names; without names all that the setting allows."""
    if not setting.is_papers:
        return select_altered(studies, names)
    return select_studies(studies, names) if names else tuple(studies)


def outcomes(names: Sequence[str], setting: Setting) -> dict[str, Outcome]:
    """Return the panels and claims of figures, by name; nothing is written.

    Examples
    --------
    >>> setting = figure_setting(counts=[40, 30, 20, 10], epsilons=["0.5", "1"], trials=100)
    >>> panel = outcomes(["wc:fig1"], setting)["wc:fig1"].panels[0]
    >>> panel.lines[0].name, panel.lines[0].x.tolist()
    ('optimal clipping, E', [0.5, 1.0])
    """
    from hexveil_research.papers.catalogue import STUDIES  # noqa: PLC0415  loads every study

    return {study.name: study.make(setting) for study in chosen_studies(STUDIES, names, setting)}


def reproduce(
    names: Sequence[str], setting: Setting, out: str | Path, *, jobs: int = 1
) -> tuple[Report, ...]:
    """Write figures and their data to a folder: see `hexveil reproduce`."""
    from hexveil_research.papers import running  # noqa: PLC0415  loads every study
    from hexveil_research.papers.catalogue import STUDIES  # noqa: PLC0415

    return running.run(chosen_studies(STUDIES, names, setting), setting, Path(out), jobs=jobs)
