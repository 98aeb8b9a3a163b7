"""RW: figures 1 and 2 and its claims.

`rw_figures` has the figures, judged by the rules of IOT's, with the forms of mechanisms that RW
defines otherwise than IOT (ERRATA 15); `rw_claims` the lemmas and remarks, most of them tried by
IOT's checks.
"""

from hexveil_research.papers.rw.rw_figures import STUDIES

__all__ = ["STUDIES"]
