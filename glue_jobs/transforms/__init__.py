"""DataFrame to DataFrame, on plain PySpark: what the jobs decide, without a store or a clock."""
