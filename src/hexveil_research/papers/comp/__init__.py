"""COMP: figures 1 to 8 and its claims.

`figures` has the synthetic setting's figures, `records` those of an hour of a city; `runs` runs
CLIP-USER once, `axes` has the two kinds of panels. Claims: `claims` (composition, what the figures
show), `suppress` (the rules of CLIP-USER), `cells`, `noise`, `caps` (one cell), `small` (exhaustive
search on tiny cells).
"""

from hexveil_research.papers.comp.figures import STUDIES

__all__ = ["STUDIES"]
