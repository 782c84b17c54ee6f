"""Copiers in Python, one a library: `python -m tests.compat.copiers.programs.NAME SETTINGS`.

Each is what its library's users are told to write. It runs until it is ended, or ends by itself with an error
that a new transaction cannot mend, such as to be fenced.
"""
