"""Maps in which presence is private: neighbours differ by all records of one privacy unit."""
