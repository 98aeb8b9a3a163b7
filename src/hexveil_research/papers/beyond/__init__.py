"""Past the papers, in the same style: three figures of ours, with claims of ours.

`accounting`: exact loss per user and the joint plan against CLIP-USER. `clipping`: the optimal
clipping and our own mechanism against the papers' on real records. `capping`: re-weighting and
midpoints against dropping, with `small` for every data set of tiny cells.
"""

from hexveil_research.papers.beyond import accounting, capping, clipping

STUDIES = (accounting.STUDY, clipping.STUDY, capping.STUDY)

__all__ = ["STUDIES"]
