"""The headrace command: what a person types, and what is printed for it."""
