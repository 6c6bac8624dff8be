"""OpenMetadata's own client against the deployed local stack. It lives in a venv of its own: .venv-openmetadata."""
