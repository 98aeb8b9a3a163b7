"""Integrity of a ledger: hash chain, replay and verification."""
