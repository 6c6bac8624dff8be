"""Planet's own datalake client, from PyPI, against the deployed local stack. It lives in a venv of its own: .venv-datalake."""
