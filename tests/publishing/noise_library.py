"""The noise library while a test lasts: each of its draws noted, failed, or made with a seed."""

import contextlib
from functools import partial
from unittest.mock import patch

import numpy as np
from opendp.mod import Measurement

METRICS = {"L1Distance": "laplace", "L2Distance": "gaussian", "LInfDistance": "choice"}


@contextlib.contextmanager
def answered(answer):
    """Let a function answer each draw, of what it is asked and of the library's own answer.

    Parameters
    ----------
    answer : callable
        Takes the kind of noise ("laplace", "gaussian" or "choice"), the numbers or scores, the
        scale, and a function that draws as the library does. Returns noisy numbers, or a place.
    """

    def called(measurement, numbers, real=Measurement.__call__):
        metric = str(measurement.input_metric).partition("(")[0]
        draw = partial(real, measurement, numbers)
        return answer(METRICS[metric], np.asarray(numbers), scale_of(measurement), draw)

    with patch.object(Measurement, "__call__", called):
        yield


def scale_of(measurement):
    """Return the scale of the noise, by the loss that the library states."""
    metric = str(measurement.input_metric)
    if metric.startswith("L2Distance"):
        return (2 * measurement.map(1.0)) ** -0.5
    return (2 if metric.startswith("LInf") else 1) / measurement.map(1)


def seeded(seed, calls=None):
    """Draw by the library's laws, the same in every run; note kind and size of each draw."""
    rng, noted = np.random.default_rng(seed), [] if calls is None else calls

    def answer(kind, numbers, scale, _):
        noted.append((kind, numbers.size))
        if kind == "choice":
            # Permute-and-flip is the noisy max with exponential noise.
            return int((numbers + rng.exponential(scale, numbers.size)).argmax())
        noise = (rng.laplace if kind == "laplace" else rng.normal)(0.0, scale, numbers.size)
        return numbers + np.rint(noise).astype(np.int64)

    return answered(answer)


def watched(calls):
    """Add the kind and the size of each draw to a list; nothing is changed."""

    def answer(kind, numbers, _, draw):
        calls.append((kind, numbers.size))
        return draw()

    return answered(answer)
