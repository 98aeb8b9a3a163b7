"""Reading records with Spark: the queries of the DuckDB engine, run by Spark's tasks.

Each task runs the query that `records/duckdb/validation.py` makes on its part of the records, so
that both engines check, round, place and group records by the same code. Spark moves what the tasks
make between them, and adds up counts and sums: whole numbers, so that no result depends on how
records are parted, on their order, or on tasks that are run again.
"""
