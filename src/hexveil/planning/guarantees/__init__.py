"""Guarantees of an allocation: its errors and its privacy losses, from public facts."""
