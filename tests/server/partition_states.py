"""States of a partition that a node alone does not come to: other replicas, other epochs, transactions."""

from headrace.log.append import AppendOrigin
from headrace.metadata.topics import PartitionImage
from headrace.records.batch import build_txn_marker
from tests.server.beside_kafka.talk import RECORD_MS, batch
from tests.server.node_world import NodeWorld


def two_replicas(*in_sync: int, leader: int = 1, epoch: int = 0) -> PartitionImage:
    """A partition with a second replica somewhere else."""
    return PartitionImage((1, 2), in_sync, leader, epoch, partition_epoch=epoch)


def begin_transaction(world: NodeWorld, topic: str, producer_id: int, sequence: int = 0) -> None:
    """Two records of a transaction, as a coordinator would let a producer write them."""
    records = batch(2, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)
    world.partition(topic).append(records, now_ms=RECORD_MS, origin=AppendOrigin.CLIENT, api_version=12)


def end_transaction(world: NodeWorld, topic: str, producer_id: int, *, commit: bool) -> None:
    marker = build_txn_marker(
        commit=commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=RECORD_MS
    )
    world.partition(topic).append(marker, now_ms=RECORD_MS, origin=AppendOrigin.COORDINATOR, api_version=-1)
