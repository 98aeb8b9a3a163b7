"""COMP figures 1 and 2: one hour of a city's buses, in its fifty busiest hexagons.

Source: COMP section VI. The paper's records (9 to 10 AM of one day of an Indian city: G = 50 cells,
L = 223 users, at most G_1 = 11 cells of a user) are not published. In their place: the same hour of
a simulated city, or the reader's own records: docs/how-to/reproduce.md has the run files of an hour
of Surat and of Warsaw. What the paper leaves open: the resolution of the hexagons (7 here) and the
day.
Read are counts alone, which are public; no value is looked at, and nothing is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hexveil.model.cells import Cells
from hexveil.records.dataset import Dataset
from hexveil.records.read import read
from hexveil.records.select import Select
from hexveil_research.papers.comp.axes import error_claims, error_panel, loss_claims, loss_panel
from hexveil_research.papers.comp.runs import (
    WIDER,
    Run,
    column,
    initial_errors,
    occupancy_of,
    run,
    seeds,
    shown_gamma,
)
from hexveil_research.papers.comp.summed_errors import least_error, least_loss
from hexveil_research.papers.comp_setting import SPAN
from hexveil_research.papers.study import Claim, Outcome, Setting, Study

if TYPE_CHECKING:
    from hexveil import Occupancy


TOP = 50
"""G, the cells of most records that are taken."""
RESOLUTION = 7
PUBLISHED = "50 cells, 223 users, at most 11 a user"
LITTLE = 0.1
"""The largest average improvement that counts as "little to no"."""


@dataclass(frozen=True)
class Hour:
    """An hour of a file, by its columns and its local clock.

    Attributes
    ----------
    name : str
    span : float
        U, in km/h.
    timezone : str
    date : str
    hour : int
        Local, 0 to 23.
    columns : dict
        Columns of user, value, time and place, as for `hexveil.read`.
    """

    name: str
    span: float
    timezone: str
    date: str
    hour: int
    columns: dict[str, str]


ITMS = {
    "user": "license_plate",
    "value": "speed",
    "time": "observationDateTime",
    "location": "location.coordinates",
}
CITY = Hour("simulated city", SPAN, "Asia/Kolkata", "2024-01-01", 9, ITMS)
BUSES, INTERVAL = 340, 20
"""Of the simulated city: about 223 of the buses are on the road in its busiest cells."""


@dataclass(frozen=True, eq=False)
class Slot:
    """Who reported how often in the busiest cells of an hour. Public.

    Attributes
    ----------
    name : str
    span : float
        U, in km/h.
    occupancy : Occupancy
    """

    name: str
    span: float
    occupancy: Occupancy

    def facts(self) -> str:
        """Return G, L and G_1 in words."""
        o = self.occupancy
        return f"{o.n_cells} cells, {o.n_users} users, at most {o.cells_per_user.max()} a user"


def dataset_of(source: object, hour: Hour) -> Dataset:
    """Return the busiest cells of an hour of a file or an Arrow table.

    Parameters
    ----------
    source : path or table
        As for `hexveil.read`.
    hour : Hour
    """
    columns: dict[str, Any] = dict(hour.columns)
    dataset: Dataset = read(
        source,
        protect="values",
        **columns,
        bounds=(0, hour.span),
        cells=Cells(resolution=RESOLUTION, timeslot="1h", timezone=hour.timezone),
        # The busiest cells count, as in the paper, however few users they have.
        select=Select(hours=(hour.hour,), dates=(hour.date, hour.date), top=TOP, min_users=1),
    )
    return dataset


@cache
def simulated(seed: int) -> Slot:
    """Return 9 to 10 AM of a Monday of the simulated city."""
    dataset = simulated_dataset(seed)
    return Slot(CITY.name, CITY.span, dataset.public.occupancy.local())


@cache
def simulated_dataset(seed: int) -> Dataset:
    """Return the same hour with its simulated values, which are nobody's."""
    from hexveil.simulation.city import City  # noqa: PLC0415  scipy, only where it is simulated

    city = City(users=BUSES, days=1, seed=seed, interval=INTERVAL)
    # Cached, since figures 1 and 2 read the same hour.
    return dataset_of(pa.Table.from_batches(city.batches()), CITY)


def slots(setting: Setting) -> tuple[Slot, ...]:
    """Return the simulated city's hour, or other data; counts of one cell are drawn from."""
    if setting.data is None:
        return (simulated(setting.seed),)
    occupancy = occupancy_of(setting, shown_gamma(setting, 0), seeds(setting)[0])
    return (Slot(setting.data.name, setting.span, occupancy),)


def has_verdicts(setting: Setting) -> bool:
    """Return whether claims are judged: on an hour of the paper's kind, nothing else changed."""
    data = setting.data
    is_hour = data is not None and data.occupancy.n_cells > 1
    return setting.is_papers or (is_hour and replace(setting, data=None).is_papers)


def runs_of(slot: Slot, epsilons: Sequence[str] = WIDER) -> tuple[tuple[Run, ...]]:
    """Return the paper's algorithms at every ε, as one draw."""
    return (tuple(run(slot.occupancy, slot.span, epsilon) for epsilon in epsilons),)


def loss_figure(setting: Setting, find: Callable[[Setting], tuple[Slot, ...]] = slots) -> Outcome:
    """Return COMP figure 1: privacy loss at no larger worst-case error, a panel for each slot."""
    panels, claims, busy_slots = [], [], find(setting)
    for number, slot in enumerate(busy_slots, start=1):
        runs = runs_of(slot, setting.losses(WIDER))
        joint = np.array(
            [[least_loss(slot.occupancy, slot.span, clip_run.bound) for clip_run in runs[0]]]
        )
        panels.append(loss_panel(f"COMP figure 1: {slot.name}", runs, joint))
        claims += [most_epsilons(slot, runs), *loss_claims("Figure 1", slot.name, runs, joint)]
        setting.tell(number / len(busy_slots))
    if not has_verdicts(setting):
        return Outcome(tuple(panels))
    return Outcome(tuple(panels), (resemblance(busy_slots), *claims))


def error_figure(setting: Setting, find: Callable[[Setting], tuple[Slot, ...]] = slots) -> Outcome:
    """Return COMP figure 2: worst-case error after CLIP-USER and caps, a panel for each slot."""
    panels, claims, busy_slots = [], [], find(setting)
    for number, slot in enumerate(busy_slots, start=1):
        runs = runs_of(slot, setting.losses(WIDER))
        joint = np.array(
            [[least_error(slot.occupancy, slot.span, clip_run.claimed) for clip_run in runs[0]]]
        )
        title = f"COMP figure 2: {slot.name}"
        panels.append(error_panel(title, slot.span, runs, joint, setting.unit))
        ours = error_claims("Figure 2", slot.name, slot.span, runs, joint)
        claims += [little(slot, runs), few_samples(slot), *ours]
        setting.tell(number / len(busy_slots))
    return Outcome(tuple(panels), tuple(claims) if has_verdicts(setting) else ())


def resemblance(busy_slots: tuple[Slot, ...]) -> Claim:
    """Return how close the slots are to the paper's."""
    descriptions = "; ".join(f"{slot.name}: {slot.facts()}" for slot in busy_slots)
    return Claim(
        "COMP",
        "Section VI-A.1",
        f"The hour has {PUBLISHED}",
        f"its records are not published; in their place {descriptions}",
        None,
        basis="other records",
    )


def most_epsilons(slot: Slot, runs: tuple[tuple[Run, ...]]) -> Claim:
    """Return the claim of figure 1: an improvement for most ε."""
    k, cells = (column(runs, name)[0] for name in ("degradation", "cells"))
    better = k < cells
    return Claim(
        "COMP",
        "Figure 1",
        f"CLIP-USER lowers the loss for most ε from 0.1 to 2 ({slot.name})",
        f"at {better.sum()} of {k.size} ε; K is {k.min():.0f} to {k.max():.0f} where G₁ = "
        f"{cells[0]:.0f}; {slot.facts()}",
        bool(better.mean() > 1 / 2),
        basis="other records",
    )


def little(slot: Slot, runs: tuple[tuple[Run, ...]]) -> Claim:
    """Return the claim of figure 2: little to no improvement of the worst-case error."""
    bound, capped = (column(runs, name)[0] for name in ("bound", "capped"))
    gain = 1 - capped / bound
    return Claim(
        "COMP",
        "Figure 2",
        f"Caps after CLIP-USER improve the worst-case error little or not at all ({slot.name})",
        f"by {gain.mean():.1%} on average over ε, {gain.min():.1%} to {gain.max():.1%}; up to "
        f"{LITTLE:.0%} on average is called little",
        bool(gain.mean() <= LITTLE),
        basis="other records",
    )


def few_samples(slot: Slot) -> Claim:
    """Return the reason that the paper gives: the worst cell has few samples of any user."""
    # "Any user" of the paper: the largest count bounds all the others.
    top = slot.occupancy.kth_largest(1)
    errors = initial_errors(slot.occupancy, slot.span, 1.0)
    # Cells of one user all have the same error: each of them must have few samples.
    worst = errors >= errors.max() * (1 - 1e-9)
    largest = int(top[worst].max())
    return Claim(
        "COMP",
        "Section VI-B, of figure 2",
        f"The cell of largest error has very few samples of any user ({slot.name})",
        f"its largest count is {largest} (of {worst.sum()} such cells), the median cell's "
        f"{np.median(top):.0f}; very few is at most half of that",
        bool(largest <= np.median(top) / 2),
        basis="other records",
    )


STUDIES: tuple[Study, ...] = (
    Study(
        name="comp:fig1",
        place="COMP, figure 1",
        title="Privacy loss after CLIP-USER, the fifty busiest hexagons of an hour",
        make=loss_figure,
        seconds=3.0,
        altered=True,
    ),
    Study(
        name="comp:fig2",
        place="COMP, figure 2",
        title="Worst-case error after CLIP-USER and caps, the fifty busiest hexagons of an hour",
        make=error_figure,
        seconds=3.0,
        altered=True,
    ),
)
