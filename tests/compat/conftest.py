"""A broker for each module, and the clients that talk to it, opened when first asked for."""

import uuid
from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.compat import brokers
from tests.compat.brokers import Broker
from tests.compat.clients.confluent import Confluent
from tests.compat.clients.face import Client, RefusedError, eventually
from tests.compat.clients.roster import Entry
from tests.compat.prepare import UnavailableError
from tests.compat.raw_wire import described_by

MakeTopic = Callable[..., str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker under test, stopped in order at the end of the module."""
    with brokers.under_test(tmp_path_factory.mktemp("broker")) as started:
        started.start()
        yield started
        started.stop()


@pytest.fixture(scope="module")
def open_client(broker: Broker) -> Iterator[Callable[[Entry], Client]]:
    """Opens a client of the roster, or hands out the one that is open already."""
    opened: dict[str, Client] = {}

    def open_once(entry: Entry) -> Client:
        if entry.name not in opened:
            try:
                opened[entry.name] = entry.open(broker.bootstrap)
            except UnavailableError as reason:
                pytest.skip(str(reason))
        return opened[entry.name]

    yield open_once
    for client in opened.values():
        client.close()


@pytest.fixture
def client(entry: Entry, open_client: Callable[[Entry], Client]) -> Client:
    """The client of a test that is parametrized with `entry`."""
    return open_client(entry)


@pytest.fixture(scope="module")
def make_topic(broker: Broker) -> MakeTopic:
    """Makes a topic with a name that no other test has, and waits until every node knows its leaders."""
    admin = Confluent(broker.bootstrap)

    def make(partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = f"t-{uuid.uuid4().hex[:12]}"
        admin.create_topic(name, partitions, config or {})

        def is_led() -> bool:
            # Nodes of a cluster hear of a topic one after the other.
            if any(described_by(each, name) != (0, partitions) for each in broker.addresses):
                return False
            described = admin.describe_topic(name)
            if len(described) != partitions or any(each["leader"] < 0 for each in described.values()):
                return False
            # Metadata may be ahead of the leaders. Until they answer, a client without idempotence that sends
            # to several partitions is refused by some, sends to all again, and has made duplicates.
            try:
                return len(admin.bounds(name)) == partitions
            except RefusedError:
                return False

        eventually(is_led, f"leaders of {name}")
        return name

    return make


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"
