"""Parts of the job ``run_pipelines``: the pipeline's lease, and the work of one task."""
