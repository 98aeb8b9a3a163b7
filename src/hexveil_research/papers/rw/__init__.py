"""RW: figures 1 and 2 and its claims.

`variants` has what RW does otherwise than IOT (ERRATA 15), `figures` the figures, judged by the
rules of IOT's, `claims` what stands in lemmas and remarks, most of it tried by IOT's checks.
"""

from hexveil_research.papers.rw.figures import STUDIES

__all__ = ["STUDIES"]
