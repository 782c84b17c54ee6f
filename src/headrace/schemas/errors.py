"""What is wrong with a schema or a registry; what is wrong with a record is a row's `error` instead."""


class PayloadError(ValueError):
    """A schema that cannot be used. The text says which part of it, and what would do."""


class RegistryError(Exception):
    """A registry that cannot be asked, or does not take what it is told.

    It ends a query, and is never a row's error: that a registry is down says nothing about a record. `status`
    is that of its answer, 0 where there was none.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class UnknownSchemaError(ValueError):
    """The registry has answered that there is no such schema."""
