"""Permute-and-flip by its definition, slowly: which position is chosen, how likely."""

from fractions import Fraction
from functools import cache


def exact_choice(costs, base):
    """Return the chance of each position for integer costs, exactly.

    Positions are visited in random order; the first whose coin falls is chosen, with odds of
    base ** -(cost - least cost).
    """
    odds = [Fraction(1, base ** int(c - min(costs))) for c in costs]

    @cache
    def chosen(left):
        """Return the chance of each position when these are still to be visited."""
        total = [Fraction(0)] * len(odds)
        for i in left:
            total[i] += odds[i] / len(left)
            if odds[i] < 1:
                rest = chosen(tuple(j for j in left if j != i))
                for j, chance in enumerate(rest):
                    total[j] += (1 - odds[i]) * chance / len(left)
        return total

    return chosen(tuple(range(len(odds))))
