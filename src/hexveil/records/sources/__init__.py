"""Sources of records: files, columns, headers, versions, the cache."""
