"""What is wrong with a pipeline's file, and in which line."""


class PipelineError(ValueError):
    """The text begins with FILE:LINE, as compilers have it, so that editors jump there."""

    def __init__(self, path: str, line: int | None, what: str) -> None:
        super().__init__(f"{path}:{line}: {what}" if line is not None else f"{path}: {what}")
        self.path = path
        self.line = line
        self.what = what
