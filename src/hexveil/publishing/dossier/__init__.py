"""The dossier of a release, for a privacy officer to read, complete and sign."""
