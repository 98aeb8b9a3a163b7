"""Mechanisms that choose by a public prior: Foresight and Auto."""
