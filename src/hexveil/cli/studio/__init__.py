"""`hexveil studio`: the way from records to a map in a browser, on this machine alone."""
