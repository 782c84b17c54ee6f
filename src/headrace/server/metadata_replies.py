"""Metadata of many topics from prepared bytes: what is told of a topic is written once, until it changes.

A thousand clients that start ask the same of every topic, and writing it takes most of the time. A topic's
bytes depend on its partitions, on the brokers, on the version and on the listener; partitions and brokers are
pictures that are replaced when they change, so that looking at them is enough to know whether the bytes still
hold. The whole reply about all topics is kept too, for as long as none has changed; those who ask for it
while it is made wait for that, and all of them are sent the same bytes.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from headrace.base.ids import TopicId
from headrace.metadata.image import MetadataImage
from headrace.metadata.topics import TopicImage
from headrace.server.context import PreparedReply
from headrace.server.long_requests import Slices, at_once
from headrace.wire.codec import ArrayWriter
from headrace.wire.schemas.metadata import MetadataResponse, MetadataResponseTopic

FORMS_MAX: Final = 16
"""Versions and listeners that bytes are kept for: clients of one kind ask alike."""

_LOOKED_AT: Final = 256


Telling = Callable[[TopicImage], Slices[MetadataResponseTopic]]
"""What is told of a topic to whoever asks in one version through one listener, in slices."""


MakeResponse = Callable[[], MetadataResponse]
"""Makes the reply without any topics."""


class _Told(NamedTuple):
    """What was written of a topic, and of which partitions."""

    partitions: tuple[Any, ...]
    element: bytes
    leaders: frozenset[int]


class MetadataForm:
    """What was written for one version and one listener."""

    def __init__(self, version: int) -> None:
        self._writer = ArrayWriter(MetadataResponse, version, "topics")
        self._brokers: tuple[Any, ...] = ()
        self._told: dict[TopicId, _Told] = {}
        self._whole: tuple[int, PreparedReply] | None = None
        self._making: Future[PreparedReply | None] | None = None

    def whole(self, image: MetadataImage) -> PreparedReply | None:
        """The reply about all topics, if nothing has changed since it was written."""
        if self._whole is None or self._whole[0] != image.topics.changes:
            return None
        return self._whole[1]

    def now(self, image: MetadataImage, response: MakeResponse, telling: Telling) -> PreparedReply:
        """The reply about all topics as they are, at once: most of it has been written before."""
        return self.whole(image) or at_once(self._make(image, response(), telling))

    def prepare(
        self, loop: AbstractEventLoop, image: MetadataImage, response: MakeResponse, telling: Telling
    ) -> Slices[PreparedReply]:
        """The reply about all topics, made once for all who wait for it."""
        begun_before = self._making
        while True:
            found = self.whole(image)
            if found is not None:
                return found
            making = self._making
            if making is None:
                return (yield from self._make_for_all(loop.create_future(), image, response(), telling))
            yield making
            # What was begun before we asked may lack what has changed before we asked.
            made = making.result() if making is not begun_before else None
            if made is not None:
                return made

    def _make_for_all(
        self,
        making: Future[PreparedReply | None],
        image: MetadataImage,
        response: MetadataResponse,
        telling: Telling,
    ) -> Slices[PreparedReply]:
        self._making, reply = making, None
        try:
            reply = yield from self._make(image, response, telling)
            return reply
        finally:  # also where who asked first is gone: the next one goes on
            self._making = None
            making.set_result(reply)

    def _make(
        self, image: MetadataImage, response: MetadataResponse, telling: Telling
    ) -> Slices[PreparedReply]:
        before, brokers = image.topics.changes, self._brokers
        reply = yield from self.reply(response, list(image.topics_by_name.values()), telling)
        if before == image.topics.changes and brokers is self._brokers:
            self._whole = (before, reply)
            if len(self._told) > 2 * len(image.topics_by_id):
                self._told = {key: told for key, told in self._told.items() if key in image.topics_by_id}
        return reply

    def reply(
        self, response: MetadataResponse, topics: list[TopicImage], telling: Telling
    ) -> Slices[PreparedReply]:
        """The reply about these topics; `response` is that without any."""
        elements = []
        leaders: set[int] = set()
        looked_at = 0
        for topic in topics:
            told = self._told.get(topic.id)
            if told is None or told.partitions != tuple(topic.partitions.values()):
                told = yield from self._tell(topic, telling)
            elements.append(told.element)
            leaders |= told.leaders
            looked_at += len(told.partitions) + 1
            if looked_at > _LOOKED_AT:
                looked_at = 0
                yield
        return PreparedReply(self._writer.message(response, elements), frozenset(leaders))

    def note_brokers(self, image: MetadataImage) -> None:
        """Forget everything where brokers have come, gone or changed: topics are told by them."""
        brokers = tuple(image.brokers.values())
        if brokers != self._brokers:
            self._brokers = brokers
            self._told = {}
            self._whole = None

    def _tell(self, topic: TopicImage, telling: Telling) -> Slices[_Told]:
        brokers, partitions = self._brokers, tuple(topic.partitions.values())
        found: MetadataResponseTopic = yield from telling(topic)
        element = self._writer.element(found)
        told = _Told(partitions, element, frozenset(each.leader_id for each in found.partitions))
        if brokers is self._brokers:
            self._told[topic.id] = told
        return told


class MetadataReplies:
    """A node's forms, by version and listener."""

    def __init__(self) -> None:
        self._forms: dict[tuple[int, str], MetadataForm] = {}

    def form(self, image: MetadataImage, version: int, listener: str) -> MetadataForm:
        form = self._forms.get((version, listener))
        if form is None:
            if len(self._forms) >= FORMS_MAX:
                self._forms.clear()
            form = self._forms[version, listener] = MetadataForm(version)
        form.note_brokers(image)
        return form
