"""Parts of the job ``retention``: the inventory of runs, the plan, and the deletion of a run."""
