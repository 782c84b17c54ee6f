"""A desk for admin handlers: a real quorum of one behind them, and every reply passed through the wire.

`ask` calls the handler as dispatch does, waits where it waits, writes the response in the version that was
asked in and reads it back: a field that the version cannot carry shows at once.
"""

import asyncio
import importlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headrace.base.clock import SystemClock
from headrace.base.errors import ApiError
from headrace.controller.cluster_state import ClusterState
from headrace.controller.drivers.producer_id_manager import ProducerIdManager
from headrace.log.system_disk import SystemDisk
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import MetadataImage
from headrace.server.api_table import BROKER
from headrace.server.authorizer import AllowAll
from headrace.server.context import ANONYMOUS
from headrace.server.error_replies import error_reply
from headrace.server.quotas.quota_managers import QuotaManagers
from headrace.server.suspected_brokers import SuspectedBrokers
from headrace.wire.codec import decode, encode
from headrace.wire.notation import schema_of
from headrace.wire.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from tests.controller.building import CLUSTER_ID, Node, format_node, open_node
from tests.raft.building import node_config


class Desk:
    """One node's parts, as far as admin handlers use them."""

    def __init__(self, node: Node, directory: str, settings: dict[str, object]) -> None:
        self.node = node
        self.image = node.image
        cluster = ClusterState(node.image, node_config(directory, **settings))

        def follow(image: MetadataImage, delta: MetadataDelta) -> None:
            if delta.configs_changed:
                cluster.follow_settings()

        node.metadata_loader.follow(follow)
        loop = asyncio.get_running_loop()
        self.parts = SimpleNamespace(
            node_id=1,
            cluster_id=CLUSTER_ID,
            config=cluster.config,
            clock=SystemClock(),
            loop=loop,
            image=node.image,
            suspected_brokers=SuspectedBrokers(loop),
            controller=node.controller,
            producer_ids=ProducerIdManager(node.controller, node.image, node_id=1, loop=loop),
            authorizer=AllowAll(),
            quotas=QuotaManagers(SystemClock(), loop),
        )
        self.peer = SimpleNamespace(
            host="127.0.0.1",
            listener="PLAINTEXT",
            principal=ANONYMOUS,
            is_forwarded=False,
            release_long_polls=lambda: None,
        )

    async def ask(self, request: Any, version: int | None = None) -> Any:
        """The reply to a request, in its newest version served unless told otherwise."""
        key = schema_of(type(request)).api_key
        row = next(row for row in BROKER if row.key == key)
        version = row.max_version if version is None else version
        module = importlib.import_module(type(request).__module__)
        response_class = getattr(module, type(request).__name__.replace("Request", "Response"))
        # What the version does not carry never reaches a handler.
        request = decode(type(request), version, encode(request, version))
        context = SimpleNamespace(
            api_key=key,
            api_version=version,
            client_id="desk",
            peer=self.peer,
            parts=self.parts,
            controller=self.parts.controller,
        )
        try:
            response = row.load()(context, request)  # type: ignore[arg-type]
            if asyncio.isfuture(response):
                response = await response
        except ApiError as error:
            response = error_reply(request, response_class, version, error)
        assert type(response) is response_class
        return decode(response_class, version, encode(response, version))

    async def create(self, *names: str, partitions: int = 1) -> None:
        topics = [CreatableTopic(name=n, num_partitions=partitions, replication_factor=1) for n in names]
        response = await self.ask(CreateTopicsRequest(topics=topics))
        assert [topic.error_code for topic in response.topics] == [0] * len(names)


def at_desk(directory: Path, script: Callable[[Desk], Coroutine[Any, Any, None]], **settings: object) -> None:
    """Run a script at a desk with a node of its own."""

    async def run() -> None:
        node = open_node(SystemDisk(), str(directory), **settings)
        await node.start()
        await script(Desk(node, str(directory), settings))
        await node.stop()

    format_node(SystemDisk(), str(directory))
    asyncio.run(run())
