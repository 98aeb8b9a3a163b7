"""Releases with private presence: booked for any unit, present or not."""
