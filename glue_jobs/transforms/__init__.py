"""DataFrame to DataFrame in plain PySpark: the decisions of the jobs, without a store or a clock."""
