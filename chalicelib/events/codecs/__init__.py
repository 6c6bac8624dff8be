"""Codecs of log agents, one module for each format: pure functions from bytes to items, and back.

A decoder yields items in the order of the body: ``Decoded``, an event with fields for routing rules, or ``Refused``. An invalid
item does not affect other items; a whole body is refused (InvalidEventError) only if its items cannot be separated.
"""
