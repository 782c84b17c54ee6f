"""A stream's progress, shown in a consumer group: what Kafka's tools and dashboards look at.

The checkpoint alone says where a query goes on. The group is a mirror of it for people, so a group that
cannot be written to costs a warning and never the query: a thread of its own commits, the newest offsets
replace older ones that still wait, and the query waits for it a moment only.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final

from headrace.base.ids import TopicPartition
from headrace.clients import Admin, OffsetAndMetadata
from headrace.clients.errors import ClientError

log = logging.getLogger(__name__)

# A commit takes a few milliseconds; one that takes longer goes on beside the query.
_WAIT_S: Final = 0.5
_LAST_WAIT_S: Final = 5.0


class GroupProgress:
    """Commits offsets for a group without members."""

    def __init__(self, group_id: str, admin: Callable[[], Admin]) -> None:
        self._group_id = group_id
        self._admin = admin
        self._news = threading.Condition()
        self._waiting: Mapping[TopicPartition, int] | None = None
        self._shown: Mapping[TopicPartition, int] = {}
        self._is_busy = False
        self._is_closed = False
        self._complaint = ""
        self._thread: threading.Thread | None = None

    def show(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Everything below these offsets is done."""
        with self._news:
            if offsets == self._shown or not offsets:
                return
            was_busy = self._is_busy
            self._shown = self._waiting = dict(offsets)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="headrace-progress", daemon=True)
                self._thread.start()
            self._news.notify_all()
            if not was_busy:  # a commit that hangs does not hold up one batch after another
                self._news.wait_for(self._is_idle, _WAIT_S)

    def close(self) -> None:
        """Give the last commit its time."""
        with self._news:
            self._news.wait_for(self._is_idle, _LAST_WAIT_S)
            self._is_closed = True
            self._news.notify_all()

    def _is_idle(self) -> bool:
        return self._waiting is None and not self._is_busy

    def _serve(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._waiting is not None or self._is_closed)
                if self._waiting is None:
                    return
                offsets, self._waiting, self._is_busy = self._waiting, None, True
            try:
                self._commit(offsets)
            finally:
                with self._news:
                    self._is_busy = False
                    self._news.notify_all()

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        try:
            self._admin().alter_group_offsets(
                self._group_id, {each: OffsetAndMetadata(offset) for each, offset in offsets.items()}
            )
        except ClientError as error:
            self._complain(str(error))
        else:
            self._complaint = ""

    def _complain(self, text: str) -> None:
        """Once for each reason; the next batch tries again."""
        with self._news:
            self._shown = {}
        if text != self._complaint:
            self._complaint = text
            what = "progress is not shown in group %s: %s (the query goes on by its checkpoint)"
            log.warning(what, self._group_id, text)
