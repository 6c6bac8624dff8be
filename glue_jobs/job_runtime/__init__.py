"""What every job has: arguments, session, settings of a stack, progress, counted requests and their prices, summary."""
