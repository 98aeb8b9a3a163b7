"""Private side: plan, ledger, noise, release folder."""
