"""Sensitivity, bias, error models and privacy loss: one home per formula. Public facts only."""
