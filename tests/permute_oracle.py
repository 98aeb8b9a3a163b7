"""Permute-and-flip by its definition, slowly: which position is chosen, how likely."""

from fractions import Fraction
from functools import cache


def exact_law(odds):
    """Return the chance of each position, exactly, for coins that fall with these odds.

    Positions are visited in random order; the first whose coin falls is chosen. One of the odds
    must be 1.
    """
    assert max(odds) == 1

    @cache
    def chosen(left):
        """Return the chance of each position when these are still to be visited."""
        total = [Fraction(0)] * len(odds)
        for i in left:
            total[i] += Fraction(odds[i]) / len(left)
            if odds[i] < 1:
                rest = chosen(tuple(j for j in left if j != i))
                for j, chance in enumerate(rest):
                    total[j] += (1 - Fraction(odds[i])) * chance / len(left)
        return total

    return chosen(tuple(range(len(odds))))


def exact_choice(costs, base):
    """Return the exact law for integer costs, with coins of odds base ** -(cost - least cost)."""
    return exact_law([Fraction(1, base ** int(c - min(costs))) for c in costs])
