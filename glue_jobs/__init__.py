"""Glue jobs: the same cores, in bulk. None yet: compaction and the sweep are scheduled functions (`chalicelib.triggers.schedules`)."""
