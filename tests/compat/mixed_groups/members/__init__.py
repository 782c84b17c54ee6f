"""Members in Python: one module per library, each run as a process of its own."""
