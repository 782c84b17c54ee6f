"""What is wrong with a schema; what is wrong with a record is a row's `error` instead."""


class PayloadError(ValueError):
    """A schema that cannot be used. The text says which part of it, and what would do."""
