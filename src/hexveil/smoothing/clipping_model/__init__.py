"""Posterior of cells under clipping: observations, priors, centres of groups."""
