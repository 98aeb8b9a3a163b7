"""Private cars of an invented city, to try maps in which presence is private.

Everything in it is invented: homes, work places, trips, speeds. `CarCity` makes the records and
states their statistics.
"""

from hexveil.simulation.cars.car_city import CarCity

__all__ = ["CarCity"]
