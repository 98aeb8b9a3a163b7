"""A noise source that makes the choices and draws the noise it was given."""

import numpy as np


class ScriptedNoise:
    """A source for one data set, which notes what it was asked.

    Parameters
    ----------
    choices : iterable of int
        Candidates to choose, in order.
    noise : float
        Of every sum, in units of its scale.
    """

    def __init__(self, choices=(), noise=0.0):
        self.choices, self.noise = list(choices), noise
        self.scores, self.selection_scales, self.scales, self.sums = [], [], [], []

    def laplace(self, values, scales):
        """Return values plus the scripted noise."""
        self.sums += values.ravel().tolist()
        self.scales += np.broadcast_to(scales, values.shape).ravel().tolist()
        return values + np.rint(self.noise * scales).astype(np.int64)

    def noisy_max(self, scores, sizes, scale):
        """Return the next scripted choice."""
        rows = np.broadcast_shapes(scores.shape, sizes.shape)
        full = [
            np.repeat(s, n)
            for s, n in zip(*(np.broadcast_to(a, rows) for a in (scores, sizes)), strict=True)
        ]
        self.scores.append(full[0])
        self.selection_scales.append(scale)
        return np.array([self.choices.pop(0)])
