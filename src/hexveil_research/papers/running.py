"""Many studies at once, in separate processes; finished studies are not repeated.

Workers hand their result to the one process that writes, so that stopping them leaves nothing
half-written.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from hexveil_research import plot_style
from hexveil_research.papers import catalogue, drawing, study_folders
from hexveil_research.papers.study import Outcome, Setting, Study, select_studies

StudyOutput = tuple[Outcome, dict[str, bytes]]

USUAL_TRIALS = 10_000
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Report:
    """A study that is made.

    Attributes
    ----------
    study : Study
    folder : Path
    reused : bool
        Whether an earlier run had made it.
    """

    study: Study
    folder: Path
    reused: bool


def run(
    studies: Sequence[Study],
    setting: Setting,
    out: Path,
    *,
    jobs: int = 1,
    tell: Callable[[float], None] = lambda _: None,
) -> tuple[Report, ...]:
    """Make the studies that are not made yet and return all of them.

    Parameters
    ----------
    studies : sequence of Study
        Of the catalogue.
    setting : Setting
    out : Path
        Folder of the results; made if need be.
    jobs : int
        Processes.
    tell : callable
        Is told the share of the work that is done, from 0 to 1.

    Raises
    ------
    InputError
        If a library is missing, or the folder is not one to write to.
    StorageError
        If a result cannot be written.
    """
    plot_style.check_installed()
    study_folders.check(out)
    reused = {study.name for study in studies if study_folders.is_made(out, study, setting)}
    todo = [study for study in studies if study.name not in reused]
    # Written as they finish, so that an interrupted run keeps all but the studies in work.
    for study, output in _outcomes(todo, setting, jobs, tell):
        study_folders.write(out, study, setting, *output)
        if setting.is_papers:
            study_folders.write_claims(out, catalogue.STUDIES)
    # Claims are those of the papers' own settings: other data has figures alone.
    if setting.is_papers:
        study_folders.write_claims(out, catalogue.STUDIES)
    return tuple(
        Report(study, study_folders.place(out, study), study.name in reused) for study in studies
    )


def _outcomes(
    studies: list[Study], setting: Setting, jobs: int, tell: Callable[[float], None]
) -> Iterator[tuple[Study, StudyOutput]]:
    """Yield each study with its outcome, as they finish; the longest begins first."""
    costs = [_cost(study, setting) for study in studies]
    order = sorted(range(len(studies)), key=lambda i: -costs[i])
    total = sum(costs) or 1.0
    if jobs == 1 or len(studies) == 1:
        for rank, i in enumerate(order):
            earlier_cost = sum(costs[k] for k in order[:rank])
            tell_study = functools.partial(_tell_part, tell, earlier_cost / total, costs[i] / total)
            yield studies[i], make(studies[i], replace(setting, tell=tell_study))
            tell_study(1.0)
        return
    # A fork would copy the locks of numpy's and Arrow's threads in whatever state they are.
    context, done = multiprocessing.get_context("spawn"), 0.0
    silent = replace(setting, tell=_silent)
    with _one_thread_each(), ProcessPoolExecutor(jobs, context, _ignore_interruptions) as pool:
        running = {pool.submit(_work, studies[i].name, silent): i for i in order}
        for future in as_completed(running):
            yield studies[running[future]], future.result()
            done += costs[running[future]]
            tell(done / total)


def make(study: Study, setting: Setting) -> StudyOutput:
    """Return the outcome of a study, and its figure."""
    outcome = study.make(setting)
    title = study.title if setting.is_papers else study.place
    return outcome, drawing.images(title, outcome, private=study.is_private(setting))


def _cost(study: Study, setting: Setting) -> float:
    """Return the estimated duration of a study; only simulations grow with the trials."""
    if not study.draws:
        return study.seconds
    return study.seconds * max(setting.trials / USUAL_TRIALS, 0.1)


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Let each worker compute in one thread: the processes share the cores already."""
    previous = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in previous.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _ignore_interruptions() -> None:
    """Leave an interruption to the process that asked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(name: str, setting: Setting) -> StudyOutput:
    """Make a study in a worker, which knows it by its name."""
    (study,) = select_studies(catalogue.STUDIES, [name])
    return make(study, setting)


def _tell_part(tell: Callable[[float], None], offset: float, size: float, share: float) -> None:
    """Tell how far the whole is when a share of one part of it is done."""
    tell(offset + size * share)


def _silent(_: float) -> None:
    """Tell nobody; unlike a lambda it can be sent to a worker."""
