"""Which brokers are alive (Kafka's BrokerHeartbeatManager): when each was last heard of, and what it was
told. Time is an argument.

This is the controller's own knowledge, not the log's: a new leader starts it afresh and gives every
unfenced broker one whole session to be heard of.
"""

from dataclasses import dataclass

NOT_SHUTTING_DOWN = -1
LONG_AGO_MS = -(2**62)


@dataclass(slots=True)
class BrokerHeartbeatState:
    """One broker's. `metadata_offset` is how far it has replayed the log."""

    last_contact_ms: int
    metadata_offset: int = -1
    shutdown_offset: int = NOT_SHUTTING_DOWN
    """In controlled shutdown: the offset that all active brokers must have replayed before it may go."""
    shutdown_since_ms: int = LONG_AGO_MS


class BrokerHeartbeatManager:
    """Heartbeat states by broker id."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._sessions: dict[int, BrokerHeartbeatState] = {}

    def begin(self, broker_id: int, now_ms: int) -> None:
        """A broker registered: whatever was known of an earlier incarnation is void."""
        self._sessions[broker_id] = BrokerHeartbeatState(now_ms)

    def touch(self, broker_id: int, *, metadata_offset: int, now_ms: int) -> None:
        session = self._sessions.setdefault(broker_id, BrokerHeartbeatState(now_ms))
        session.last_contact_ms = now_ms
        session.metadata_offset = metadata_offset

    def note_replayed(self, broker_id: int, offset: int) -> None:
        """The quorum's leader knows more of how far a broker has got than its last heartbeat told."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.metadata_offset = max(session.metadata_offset, offset)

    def end(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def expire(self, broker_id: int) -> None:
        """A broker is certainly gone: its session is over now."""
        if broker_id in self._sessions:
            self._sessions[broker_id].last_contact_ms = LONG_AGO_MS

    def forgive(self, absent_ms: int, now_ms: int) -> None:
        """The controller itself could not listen for a while: nobody's silence of that time counts."""
        for session in self._sessions.values():
            if session.last_contact_ms != LONG_AGO_MS:
                session.last_contact_ms = min(session.last_contact_ms + absent_ms, now_ms)

    def is_alive(self, broker_id: int, now_ms: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and now_ms <= session.last_contact_ms + self.timeout_ms

    def begin_shutdown(self, broker_id: int, offset: int, now_ms: int) -> None:
        session = self._sessions[broker_id]
        session.shutdown_offset = max(session.shutdown_offset, offset)
        session.shutdown_since_ms = now_ms

    def may_shut_down(self, broker_id: int, active: list[int], now_ms: int) -> bool:
        """Whether every active broker has replayed that the leaders moved away. One that could not for as
        long as a session lasts is not waited for: its disk may be full for days.
        """
        session = self._sessions[broker_id]
        return now_ms > session.shutdown_since_ms + self.timeout_ms or all(
            self._sessions[other].metadata_offset >= session.shutdown_offset
            for other in active
            if other in self._sessions
        )

    def next_expiry_ms(self, spare: int) -> int | None:
        """When the next broker falls silent if nothing is heard; `spare` is never silent (see `silent`)."""
        contacts = [each.last_contact_ms for broker_id, each in self._sessions.items() if broker_id != spare]
        return min(contacts) + self.timeout_ms + 1 if contacts else None

    def silent(self, now_ms: int, spare: int) -> list[int]:
        """Brokers whose session is over, the longest silent first.

        The broker that shares the controller's process is spared: it lives as long as the controller does,
        and a process that was paused for a session must not fence itself when it goes on.
        """
        over = [
            broker_id
            for broker_id in self._sessions
            if broker_id != spare and not self.is_alive(broker_id, now_ms)
        ]
        return sorted(over, key=lambda broker_id: self._sessions[broker_id].last_contact_ms)
