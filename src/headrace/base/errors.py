"""The one exception that carries a Kafka error code from where a fault is found to the reply."""

from headrace.base.error_codes import ErrorCode


class ApiError(Exception):
    """A request failed in a way its reply can say: `code` for the client, `message` for the person."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message or code.name


class InvalidBytesError(ValueError):
    """Bytes from the wire or the disk do not follow their schema. On the wire it closes the connection."""
