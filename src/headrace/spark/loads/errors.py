"""What is said of a table that cannot be loaded into."""


class LoadError(ValueError):
    """A table that cannot be loaded into as it was asked for. The text is for a person."""


class StoreError(LoadError):
    """Its store, or its catalogue, cannot be reached."""
