"""Past the papers, in the same style: three figures of ours, with claims of ours.

`exact_accounting`: exact loss per user and the joint plan against CLIP-USER. `real_records`: the
optimal clipping and our own mechanism against the papers' on real records. `capping`: re-weighting
and midpoints against dropping, with `reweighting_search` for every data set of tiny cells.
"""

from hexveil_research.papers.beyond import capping, exact_accounting, mechanism_errors

STUDIES = (exact_accounting.STUDY, mechanism_errors.STUDY, capping.STUDY)

__all__ = ["STUDIES"]
