"""A connection that has used its slice of time waits for its next turn, and nobody waits for it."""

from headrace.transport.serving_turns import SLICE_NS, ServingTurns
from tests.transport.harness import echo, frame


class Costly:
    """A clock by which every frame and every slice of work takes a millisecond."""

    def __init__(self):
        self.ns = 0

    def __call__(self):
        return self.ns

    def work(self, ms=1):
        self.ns += ms * 1_000_000


def listen(place, clock, on_frame):
    return place.listen(on_frame, serving=ServingTurns(place.loop, clock))


def test_many_requests_of_one_connection_let_others_in_between(place):
    async def main():
        clock, served = Costly(), []

        def on_frame(connection, body):
            clock.work()
            served.append(bytes(body))
            echo(connection, body)

        listener = listen(place, clock, on_frame)
        greedy, modest = await place.peer(listener), await place.peer(listener)
        await greedy.write(frame(b"much") * 50)
        await modest.write(frame(b"little"))
        assert await modest.read_frame() == b"little"
        assert [await greedy.read_frame() for _ in range(50)] == [b"much"] * 50
        if not place.is_virtual:
            # Both were there in the same turn: whoever was first, the other waited for a slice at most.
            assert served.index(b"little") <= 2 * SLICE_NS // 1_000_000

    place.run(main())


def test_work_in_slices_keeps_the_order_of_its_connection_and_holds_up_nobody_else(place):
    async def main():
        clock, order = Costly(), []

        def on_frame(connection, body):
            body = bytes(body)
            if not body.startswith(b"long"):
                order.append(body)
                echo(connection, body)
                return
            slot = connection.begin_reply()

            def work():
                for _ in range(100):
                    clock.work()
                    yield
                order.append(body)
                slot.send((frame(body),))

            connection.work_on(work())

        listener = listen(place, clock, on_frame)
        asker, other = await place.peer(listener), await place.peer(listener)
        await asker.write(frame(b"long 1") + frame(b"short") + frame(b"long 2"))
        await place.until(lambda: listener_is_at_work(listener))
        await other.write(frame(b"other"))
        assert await other.read_frame() == b"other"
        assert [await asker.read_frame() for _ in range(3)] == [b"long 1", b"short", b"long 2"]
        assert order.index(b"other") < order.index(b"long 2")

    place.run(main())


def listener_is_at_work(listener):
    return any(connection.outstanding for connection in listener.connections)


def test_work_waits_for_what_it_yields(place):
    async def main():
        awaited = place.loop.create_future()

        def on_frame(connection, body):
            slot = connection.begin_reply()

            def work():
                yield awaited
                slot.send((frame(awaited.result()),))

            connection.work_on(work())

        listener = place.listen(on_frame)
        peer = await place.peer(listener)
        await peer.write(frame(b"x"))
        await place.until(lambda: listener_is_at_work(listener))
        await place.turn(3)
        awaited.set_result(b"done")
        assert await peer.read_frame() == b"done"

    place.run(main())


def test_a_connection_that_ends_takes_its_work_with_it(place):
    async def main():
        steps = []

        def on_frame(connection, body):
            connection.begin_reply()

            def work():
                while True:
                    steps.append(1)
                    yield

            connection.work_on(work())

        clock = Costly()

        def passing():
            clock.work()
            return clock.ns

        listener = place.listen(on_frame, serving=ServingTurns(place.loop, passing))
        peer = await place.peer(listener)
        await peer.write(frame(b"x"))
        await place.until(lambda: len(steps) > 10)
        for connection in list(listener.connections):
            connection.abort("gone")
        await place.turn(2)
        so_far = len(steps)
        await place.turn(5)
        assert len(steps) == so_far
        peer.socket.close()

    place.run(main())


def test_work_that_fails_closes_its_connection_only(place, caplog):
    async def main():
        def on_frame(connection, body):
            def work():
                yield
                raise ValueError("broken")

            connection.work_on(work())

        peer = await place.peer(place.listen(on_frame))
        await peer.write(frame(b"x"))
        assert await peer.read_frame() is None

    place.run(main())
    assert "broken" in caplog.text


class Turns:
    """A connection that has so many slices to do, and notes when it is done."""

    def __init__(self, serving, clock, name, slices, done, *, in_crowd):
        self.serving, self.clock, self.name, self.slices, self.done = serving, clock, name, slices, done
        self.in_crowd = in_crowd
        serving.join(self, in_crowd=in_crowd)

    def take_turn(self):
        self.clock.work()
        self.slices -= 1
        if self.slices:
            self.serving.join(self, in_crowd=self.in_crowd)
        else:
            self.done.append(self.name)


def test_who_is_known_does_not_stand_behind_a_crowd(place):
    async def main():
        clock, done = Costly(), []
        serving = ServingTurns(place.loop, clock)
        for number in range(100):
            Turns(serving, clock, number, 1, done, in_crowd=True)
        Turns(serving, clock, "known", 4, done, in_crowd=False)
        await place.until(lambda: len(done) == 101)
        assert done.index("known") < 10
        assert [each for each in done if each != "known"] == list(range(100)), "first come, first served"

    place.run(main())


def test_a_connection_that_was_queued_and_is_short_again_is_served_at_once(place):
    async def main():
        clock = Costly()

        def on_frame(connection, body):
            clock.work(3 if body == b"long" else 0)
            echo(connection, body)

        listener = listen(place, clock, on_frame)
        peer = await place.peer(listener)
        for body in (b"long", b"long", b"little"):
            await peer.write(frame(body))
            assert await peer.read_frame() == body
        (connection,) = listener.connections
        assert not connection._takes_long

    place.run(main())


def test_a_turn_that_took_very_long_is_told_of_with_whose_it_was(place):
    async def main():
        clock, slow = Costly(), []

        def on_frame(connection, body):
            connection.attached = bytes(body)
            clock.work(30 if body == b"slow" else 1)
            echo(connection, body)

        serving = ServingTurns(
            place.loop, clock, slow_ns=20_000_000, on_slow=lambda who, ns: slow.append((who, ns))
        )
        listener = place.listen(on_frame, serving=serving)
        peer = await place.peer(listener)
        for body in (b"quick", b"slow", b"quick"):
            await peer.write(frame(body))
            assert await peer.read_frame() == body
        assert slow == [(b"slow", 30_000_000)]

    place.run(main())
