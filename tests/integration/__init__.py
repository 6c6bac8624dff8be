"""Tests of the deployed stack: the packaged template on the emulator, functions included."""
