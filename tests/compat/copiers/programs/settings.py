"""What a copier is told, as one JSON argument."""

import json
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    bootstrap: str
    group: str
    source: str
    target: str
    transactional_id: str
    session_ms: int
    transaction_ms: int
    size: int  # records of a transaction, at most

    @property
    def heartbeat_ms(self) -> int:
        return self.session_ms // 6


def settings() -> Settings:
    return Settings(**json.loads(sys.argv[1]))
