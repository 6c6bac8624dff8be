"""Shared code of all jobs: arguments, Spark session, settings of a stack, progress, request counts and prices, summary."""
