"""In-memory adapters of the ports, with the semantics of the real services: for tests and for runs without AWS."""
