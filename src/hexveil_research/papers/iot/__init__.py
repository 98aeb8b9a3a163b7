"""IOT: figures 1 to 5 and its claims.

`setting` has the cells and simulated errors over ε, `figures` the figures 1 to 4 and `shown` what
is said of them, `staircase` figure 5. Claims without a figure are in `claims`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexveil_research.papers.iot import figures, staircase
from hexveil_research.papers.iot.claims import CLAIMS_STUDY

if TYPE_CHECKING:
    from hexveil_research.papers.study import Study

__all__ = ["STUDIES"]

STUDIES: tuple[Study, ...] = (*figures.STUDIES, staircase.STUDY, CLAIMS_STUDY)
"""What the catalogue lists."""
