"""Records of delimited text, with declared types wherever these provably change no value."""
