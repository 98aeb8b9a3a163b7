"""Control of false discoveries over cells: Benjamini-Hochberg or Benjamini-Yekutieli.

Of the cells that are called changed, a share of at most `rate` is called so wrongly, on average
over the noise. Benjamini and Hochberg (JRSS B 57, 1995) need p-values of unchanged cells that are
independent of each other and of the rest. That holds within public bounds: given the records, a
p-value depends on the noise of its own two cells alone, and each is drawn on its own. Bias only
makes p-values larger, which keeps the bound. Benjamini and Yekutieli (Annals of Statistics 29,
2001) need no independence and pay a factor of 1 + 1/2 + ... + 1/m. They are used where cells share
a private range or noise: one unlucky range moves many cells at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def find_discoveries(
    p_value: NDArray[np.float64], rate: float, *, are_independent: bool
) -> NDArray[np.bool_]:
    """Return the hypotheses that are rejected.

    Parameters
    ----------
    p_value : ndarray of float, shape (n,)
    rate : float
        False discovery rate, in (0, 1).
    are_independent : bool
        Whether p-values of true hypotheses are independent; else the rate is divided by
        1 + 1/2 + ... + 1/n.

    Examples
    --------
    >>> p_value = np.array([0.01, 0.5, 0.03, 0.8])
    >>> find_discoveries(p_value, 0.1, are_independent=True)
    array([ True, False,  True, False])
    >>> find_discoveries(p_value, 0.1, are_independent=False).sum()
    np.int64(1)
    """
    count = p_value.size
    if not count:
        return np.zeros(0, dtype=np.bool_)
    rank = np.arange(1, count + 1)
    divisor = 1.0 if are_independent else float(np.sum(1.0 / rank))
    ordered = np.sort(p_value)
    passing = np.flatnonzero(ordered <= rate * rank / (count * divisor))
    limit = ordered[passing[-1]] if passing.size else -1.0
    return np.asarray(p_value <= limit)
