"""Means and variances whose users are clipped by caps and factors: one stage."""
