"""The page of several value columns, with a choice of column and statistic."""
