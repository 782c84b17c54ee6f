"""What the sink refuses, said so that the user knows which column, row or option to change."""


class SinkError(ValueError):
    """Rows that records cannot be made of, or options that do not go together."""
