"""WC: figures 1 to 3 and its claims.

`count_collections` has the two collections of counts and the samples, `worst_case_figures` the
figures. Claims: `curve_claims` (what the figures show), `clipping_claims` (section III, by search),
`linear_program` (the same, by duality), `thresholds` (AKMV and the sensitivities, section IV).
"""

from hexveil_research.papers.wc.worst_case_figures import STUDIES

__all__ = ["STUDIES"]
