"""A simulated city of buses, to try things on that real records are too private or too few for.

Everything in it is invented: streets, routes, buses, speeds. `City` makes the records, in the
columns of the feed of Surat's buses (ITMS); `hexveil_research.city`
compares them with real ones.
"""

from hexveil.simulation.city.generator import City

__all__ = ["City"]
