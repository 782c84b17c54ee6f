"""A consumer that cannot reach its cluster waits, and does not look around all the time."""

import asyncio

from headrace.clients import AsyncConsumer
from headrace.clients.internals.environment import ClientEnvironment
from headrace.testing.machine import Surroundings
from headrace.testing.world import World

SETTINGS = {
    "bootstrap.servers": "broker:9092",
    "group.id": "g",
    "auto.offset.reset": "earliest",
    "socket.connection.setup.timeout.ms": 10_000,
}


def test_a_refresh_that_takes_long_is_waited_for() -> None:
    world = World(5)
    world.network.attach("broker", world.driver)
    client = world.machine("client")

    async def script() -> None:
        async def poll(own: Surroundings) -> None:
            surroundings = ClientEnvironment(own.loop, own.network, own.clock, own.rng)
            consumer = AsyncConsumer(SETTINGS, environment=surroundings)
            consumer.subscribe(["t"])
            while True:
                await consumer.poll(1.0)

        client.boot(poll, may_fail=True)
        await asyncio.sleep(3)  # refused, and tried again after a pause
        world.network.partition(["client"], ["broker"])
        await asyncio.sleep(1)
        steps = world.scheduler.steps
        await asyncio.sleep(5)  # while nothing answers
        assert world.scheduler.steps - steps < 200

    try:
        world.run(script())
    finally:
        world.close()
