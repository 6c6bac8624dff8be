"""One suite over the in-memory ports, moto and ministack: all must behave alike."""
