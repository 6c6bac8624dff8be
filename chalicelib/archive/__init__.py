"""The files themselves: what an object of the archive is, its contents, uploads, changes."""
