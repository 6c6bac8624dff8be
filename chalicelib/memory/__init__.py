"""The ports in one process's memory, with the semantics of the real services: for tests and for runs without AWS."""
