"""What ``bulk_compact`` is made of: which runs are due, and what a task does with its own."""
