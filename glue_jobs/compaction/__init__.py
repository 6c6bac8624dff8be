"""Parts of the job ``bulk_compact``: the runs that are due, and the work of one task."""
