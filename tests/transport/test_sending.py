"""Who asks is told when a reply leaves: when it is offered to the kernel, and when that has all of it."""

from tests.transport.harness import frame


class Watch:
    """Notes what it is told."""

    def __init__(self, told, name):
        self.told = told
        self.name = name
        self.response_bytes = -1

    def offered(self):
        if (self.name, "offered") not in self.told:
            self.told.append((self.name, "offered"))

    def sent(self):
        self.told.append((self.name, "sent"))


def test_a_short_reply_is_offered_and_sent(place):
    async def main():
        told = []
        watch = Watch(told, "a")
        listener = place.listen(lambda connection, data: connection.send((frame(bytes(data)),), watch))
        peer = await place.peer(listener)
        await peer.write(frame(b"abc"))
        assert await peer.read_frame() == b"abc"
        assert told == [("a", "offered"), ("a", "sent")]
        assert watch.response_bytes == 7

    place.run(main())


def test_a_reply_behind_another_is_told_when_its_turn_has_come(place):
    async def main():
        told, slots = [], []
        listener = place.listen(
            lambda connection, data: slots.append((connection.begin_reply(), bytes(data).decode()))
        )
        peer = await place.peer(listener)
        await peer.write(frame(b"a") + frame(b"b"))
        await place.until(lambda: len(slots) == 2)
        (first, _), (second, name) = slots
        second.send((frame(b"b"),), Watch(told, name))
        await place.turn(3)
        assert told == []
        first.send((frame(b"a"),), Watch(told, "a"))
        assert [await peer.read_frame() for _ in range(2)] == [b"a", b"b"]
        assert sorted(told) == [("a", "offered"), ("a", "sent"), ("b", "offered"), ("b", "sent")]
        assert told.index(("a", "sent")) < told.index(("b", "sent"))

    place.run(main())


def test_a_long_reply_is_sent_when_its_reader_has_taken_it(place):
    async def main():
        told = []
        body = bytes(500_000 if place.is_virtual else 20_000_000)  # more than sockets hold
        listener = place.listen(lambda connection, data: connection.send((frame(body),), Watch(told, "long")))
        peer = await place.peer(listener)
        await peer.write(frame(b"x"))
        await place.until(lambda: told)
        await place.turn(20)
        assert told == [("long", "offered")]
        assert await peer.read_frame() == body
        assert told == [("long", "offered"), ("long", "sent")]

    place.run(main())


def test_no_reply_is_sent_at_once_and_one_that_is_lost_never(place):
    async def main():
        told, connections = [], []

        def on_frame(connection, data):
            connections.append(connection)
            connection.send((), Watch(told, "none"))
            connection.begin_reply()

        peer = await place.peer(place.listen(on_frame))
        await peer.write(frame(b"x"))
        await place.until(lambda: connections)
        assert told == [("none", "sent")]
        [connection] = connections
        connection.send((frame(b"y"),), Watch(told, "lost"))
        connection.abort()
        await place.turn(3)
        assert told == [("none", "sent")]
        assert await peer.is_closed()

    place.run(main())
