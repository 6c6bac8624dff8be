"""What the lines of a run's log say: when, how bad, who, and what. The standard library only: Spark's workers and the functions share it."""
