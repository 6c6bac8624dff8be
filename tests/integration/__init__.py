"""The deployed stack: the packaged template on the emulator, functions and all."""
