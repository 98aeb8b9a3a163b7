"""Panels of simulated errors on one cell, of IOT's and RW's figures."""

from __future__ import annotations

from collections.abc import Callable

from hexveil.mechanisms import CellMechanism
from hexveil_research.papers import itms
from hexveil_research.papers.exponential_mechanism import PRINTED, PrintedChoice
from hexveil_research.papers.iot.iot_cells import ERROR, Cell, Curves, ends, simulated
from hexveil_research.papers.study import CELL_LOSS, Line, Panel, Setting

CHOOSING = ("LEVY", "FIXEDQUANTILE", "OPTIMIZEDQUANTILE", "ε-DEPENDENTQUANTILE")
"""Algorithms that make a private choice, by their names in IOT and RW."""


def subject(setting: Setting, usual: str) -> str:
    """Return the data of a figure in words: the paper's, or the setting's own."""
    return usual if setting.data is None else setting.data.name


def scaled(setting: Setting, scaling: str) -> str:
    """Return the scaling of a figure in words, with λ."""
    factor = itms.SCALE if setting.scale is None else setting.scale
    own = "" if setting.data is None else f"{setting.data.name}, "
    return f"{own}{scaling} scaling, λ = {factor}"


def curves_by_name(
    setting: Setting,
    cell: Callable[[int], Cell],
    mechanisms: dict[str, CellMechanism],
    tell: Callable[[float], None] = lambda _: None,
) -> Curves:
    """Return the errors of mechanisms, by the names given."""
    by_name = simulated(list(mechanisms.values()), setting, cell, tell)
    return {name: by_name[mechanism.name] for name, mechanism in mechanisms.items()}


def error_panel(title: str, setting: Setting, papers: Curves, ours: Curves) -> Panel:
    """Return the errors of the papers' algorithms and ours in one pair of axes."""
    lines = (
        *(curve.line(name) for name, curve in papers.items()),
        *(curve.line(name, "ours") for name, curve in ours.items()),
    )
    return _panel(title, setting, lines)


def choice_panel(
    title: str,
    setting: Setting,
    cell: Callable[[int], Cell],
    mechanisms: dict[str, CellMechanism],
    curves: Curves,
) -> Panel:
    """Return the errors with both private choices: permute-and-flip, and the printed one.

    Parameters
    ----------
    title : str
    setting : Setting
    cell : callable
        Makes the cell of a seed.
    mechanisms : dict of str to CellMechanism
        Those that make no private choice are left out.
    curves : dict of str to Curve
        Errors of the mechanisms as they are released, by the same names.
    """
    choosing = {name: mechanisms[name] for name in CHOOSING if name in mechanisms}
    forms = {name: PrintedChoice(mechanism) for name, mechanism in choosing.items()}
    printed = curves_by_name(setting, cell, dict(forms))
    lines = tuple(
        curve_line
        for name in choosing
        for curve_line in (
            printed[name].line(f"{name}, {PRINTED}"),
            curves[name].line(f"{name}, permute-and-flip"),
        )
    )
    return _panel(title, setting, lines)


def _panel(title: str, setting: Setting, lines: tuple[Line, ...]) -> Panel:
    return Panel(
        title, CELL_LOSS, f"{ERROR}, {setting.unit}", lines, log_y=True, ends=ends(setting)
    )
