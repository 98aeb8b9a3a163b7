"""The page of a release: a map, a table and the promise, made from released numbers only.

Nothing here reads records. Everything drawn comes from the released table, from the manifest and
from a public file of lines, so the page costs no privacy.
"""
