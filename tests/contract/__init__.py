"""One suite over the in-memory ports, moto and ministack: what holds for one must hold for all."""
