"""What ``run_pipelines`` is made of: a pipeline taken over for a job, and what a task does with its runs."""
