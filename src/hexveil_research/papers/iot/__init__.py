"""IOT: figures 1 to 5 and its claims.

`iot_cells` has the cells and simulated errors over ε, `iot_figures` the figures 1 to 4 and
`figure_claims` the claims on them, `staircase` figure 5. Claims without a figure are in
`iot_claims`.
"""

from __future__ import annotations

from hexveil_research.papers.iot import iot_figures, staircase
from hexveil_research.papers.iot.iot_claims import CLAIMS_STUDY
from hexveil_research.papers.study import Study

__all__ = ["STUDIES"]

STUDIES: tuple[Study, ...] = (*iot_figures.STUDIES, staircase.STUDY, CLAIMS_STUDY)
"""What the catalogue lists."""
