"""Quantiles and shares that remember earlier days: mean scores of cells, from 0 to 1.

A share beyond one threshold is the mean of an indicator, and mean ranks are means as well: what is
remembered of averages is remembered of these, ranges included. Ranks are ranks in a distribution:
the first day of a series pays for it, later ones take it over. Quantiles are read off it, tilted to
the remembered mean rank of a cell.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from hexveil.mechanisms.distribution.shape_statistics import SCORE_LATTICE
from hexveil.model.declared_grid import DeclaredFacts
from hexveil.model.public_metadata import PublicMetadata
from hexveil.model.statistic_terms import (
    Histogram,
    Share,
    Term,
    has_distribution,
    on_lattice,
    parse_statistics,
)
from hexveil.planning.allocation import CellForecast, PublishedShape
from hexveil.publishing.memory.history import History, forecast_cells, memory_key

Facts = TypeVar("Facts", PublicMetadata, DeclaredFacts)
NOTHING = np.zeros(0)
EMPTY = CellForecast(NOTHING, NOTHING, 0.0, ())


def score_facts(facts: Facts, terms: Sequence[Term], shape: PublishedShape | None = None) -> Facts:
    """Return the facts of mean scores, with a value that names what they are scores of."""
    description = f"{facts.lattice} {[term.text for term in terms]}"
    description += "" if shape is None else f" {shape.edges.tolist()} {shape.shares.tolist()}"
    digest = hashlib.sha256(description.encode()).hexdigest()[:16]
    named = f"score of {facts.value} {digest}"
    return replace(facts, lattice=SCORE_LATTICE, value=named, value_unit="")


def forecast_day(
    facts: PublicMetadata, statistics: Sequence[str], history: History
) -> CellForecast | None:
    """Return the forecast of a day by the releases of earlier days, for what it publishes."""
    if has_distribution(statistics):
        return forecast_scores(facts, statistics, history)
    return forecast_cells(facts, history)


def forecast_scores(
    facts: PublicMetadata, statistics: Sequence[str], history: History
) -> CellForecast | None:
    """Return the forecast of a day's mean scores by the releases of earlier days.

    Of the first day of a series it is empty; None of histograms, which are measured by bins.
    """
    terms = on_lattice(parse_statistics(statistics)[1], facts.lattice)
    if any(isinstance(term, Histogram) for term in terms):
        return None
    shape = None
    if not (len(terms) == 1 and isinstance(terms[0], Share)):
        shape = published_shape(facts, terms, history)
        if shape is None:
            return EMPTY
    forecast = forecast_cells(score_facts(facts, terms, shape), history) or EMPTY
    return replace(forecast, shape=shape)


def published_shape(facts: Facts, terms: Sequence[Term], history: History) -> PublishedShape | None:
    """Return the shape of a series of the same statistics, by its newest release; None without."""
    for release in reversed(history.releases):
        if release.shape is not None:
            shape = read_shape(release.shape)
            is_alike = facts.bins is not None and np.array_equal(shape.edges, facts.bins.edges)
            if is_alike and memory_key(score_facts(facts, terms, shape)) == release.key:
                return shape
    return None


def read_shape(stated: Mapping[str, Any]) -> PublishedShape:
    """Return the shape that a manifest states; InputError for none."""
    edges, place = (np.array(stated[name], dtype=np.int64) for name in ("edges", "place"))
    shape = PublishedShape(edges, np.array(stated["shares"], dtype=np.float64), place)
    shape.check()
    return shape
