"""What ``retention`` is made of: which runs there are, the plan, and how a run goes."""
