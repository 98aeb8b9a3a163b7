"""Storage of a ledger: databases, tables, locks, timeouts."""
