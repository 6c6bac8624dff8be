"""Mutation testing of decisive lines: ``python -m tests.mutants`` applies each curated mutation and runs the tests that must fail."""
