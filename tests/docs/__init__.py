"""The documents: checked against the code, by Markdown's conventions, so that pages may be rewritten freely.

- ``references.py``: inline code that names a path, a command, a route, a scope, a setting, a metric or an identifier.
- ``numbers.py``, ``facts.py``: numbers with units, and what each is bound to.
- ``shell_blocks.py``, ``shell.py``: blocks of shell, and what executes them.
- ``test_blocks.py``, ``other_systems.py``, ``aws_commands.py``: every other block, and configurations and commands of other systems.
- ``pages.py``: how pages are read.
"""
