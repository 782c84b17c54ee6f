"""What a library says about a failure, without what must not be in a log.

Libraries quote requests: a signed URL has its signature in the query, and a refusal may repeat the key. So a
reason is one line, without queries, and without any value of a setting that is not known to be harmless.
"""

import re
from collections.abc import Mapping
from typing import Final

# Everything else that is given to a store counts as a secret.
HARMLESS: Final = frozenset(
    {"url", "endpoint", "region", "profile", "timeout", "connect_timeout", "allow_http"}
)
# Hiding every "1" or "true" of a text would make it useless, and such a value protects nothing.
_SECRET_CHARACTERS_MIN: Final = 6

_QUERY: Final = re.compile(r"\?[^\s\"')]+")


class Reasons:
    """Turns exceptions into reasons that may be told."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._secrets = sorted(
            (
                value
                for name, value in settings.items()
                if name not in HARMLESS and len(value) >= _SECRET_CHARACTERS_MIN
            ),
            key=len,
            reverse=True,
        )

    def of(self, error: BaseException) -> str:
        """The first line of what an error says."""
        line = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        line = _QUERY.sub("?…", line)
        for secret in self._secrets:
            line = line.replace(secret, "…")
        return line
