"""HTTP in and out: ``table.py`` lists every route, a module per resource has its views. Status codes are declared here only."""
