"""The HTTP API: ``operations.py`` lists every route, and a module per resource has its views. Status codes occur only in this package."""
