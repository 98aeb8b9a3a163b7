"""Research on top of hexveil: the papers' figures and claims, the audit, pictures of the docs."""
