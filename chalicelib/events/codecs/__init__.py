"""What agents send, one module per shape: pure functions from bytes to items, and back.

A decoder gives items in the order of the body: ``Decoded``, an event and what a routing rule may look at, or ``Refused``. What is
wrong with one item is no other's trouble; a body as a whole is refused (InvalidEventError) only where nothing in it can be told apart.
"""
