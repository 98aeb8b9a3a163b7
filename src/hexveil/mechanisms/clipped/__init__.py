"""Means and variances of users clipped by caps and factors: one stage."""
