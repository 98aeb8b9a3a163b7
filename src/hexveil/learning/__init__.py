"""Forecasts of maps by the published maps of earlier days: post-processing, without records."""
