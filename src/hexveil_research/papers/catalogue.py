"""Every study by its name, in the order of the papers."""

from __future__ import annotations

from hexveil_research.papers import comp, iot, rw, wc
from hexveil_research.papers.study import Study

STUDIES: tuple[Study, ...] = (*iot.STUDIES, *rw.STUDIES, *comp.STUDIES, *wc.STUDIES)
