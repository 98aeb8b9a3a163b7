"""Methods and mechanisms beside each other, on one goal."""
