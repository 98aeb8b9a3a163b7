"""COMP: figures 1 to 8 and its claims.

`composition_figures` has the synthetic setting's figures, `busiest_hour` those of an hour of a
city; `runs` runs CLIP-USER once, `axes` has the two kinds of panels. Claims: `composition_claims`
(composition, what the figures show), `suppression_claims` (the rules of CLIP-USER), `cell_claims`,
`cap_claims` (one cell), `tiny_cells` (exhaustive search on tiny cells).
"""

from hexveil_research.papers.comp.composition_figures import STUDIES

__all__ = ["STUDIES"]
