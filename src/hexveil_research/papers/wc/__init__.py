"""WC: figures 1 to 3 and its claims.

`setting` has the two collections of counts and the samples, `figures` the figures. Claims:
`shown` (what the figures show), `clipping` (section III, by search), `program` (the same, by
duality), `thresholds` (AKMV and the sensitivities, section IV).
"""

from hexveil_research.papers.wc.figures import STUDIES

__all__ = ["STUDIES"]
