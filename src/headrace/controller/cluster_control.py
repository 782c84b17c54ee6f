"""Brokers come, are fenced and unfenced, shut down and go: registration, heartbeats, sessions.

A broker registers fenced, replays the log until it has seen its own registration, and is unfenced by the
heartbeat that says so. It is fenced again when it asks for it, when it shuts down, or when it is silent for
a session. Each step moves leaders and in-sync sets along in the same decision.

A broker that comes back without proof that it stopped cleanly (the epoch it had when it did) may have lost
records it once acknowledged: it leaves every in-sync set and every set of eligible leaders before it is
registered (KIP-966).
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import islice

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.base.ids import NO_EPOCH
from headrace.controller.broker_heartbeat_manager import BrokerHeartbeatManager
from headrace.controller.cluster_state import ClusterState
from headrace.controller.controller_result import RECORDS_PER_REQUEST_MAX, ControllerResult, Reply, check_size
from headrace.controller.partition_change_builder import change_partition, election_rules, same_change
from headrace.metadata.brokers import (
    ENTER_CONTROLLED_SHUTDOWN,
    FENCE,
    UNFENCE,
    BrokerRegistration,
    VersionRange,
)
from headrace.metadata.directory_id import is_reserved
from headrace.metadata.features import CORDONS_FROM, METADATA_VERSION
from headrace.metadata.image import MetadataRecord
from headrace.metadata.topics import PartitionImage, TopicImage
from headrace.wire.schemas.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.schemas.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from headrace.wire.schemas.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from headrace.wire.schemas.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

logger = logging.getLogger(__name__)


class State(Enum):
    """What a broker is to the controller."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "handing over its leaders"
    SHUTDOWN_NOW = "may stop"


def check_broker_epoch(cluster: ClusterState, broker_id: int, epoch: int) -> BrokerRegistration:
    """The broker, if it speaks as the incarnation that is registered; STALE_BROKER_EPOCH otherwise."""
    broker = cluster.image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is not registered: register first")
    if broker.epoch != epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"broker {broker_id} speaks with epoch {epoch} but was registered again since, with epoch "
            f"{broker.epoch}",
        )
    return broker


def register_broker(
    cluster: ClusterState,
    sessions: BrokerHeartbeatManager,
    request: BrokerRegistrationRequest,
    *,
    next_offset: int,
    now_ms: int,
) -> ControllerResult[BrokerRegistrationResponse]:
    """Take a broker in, fenced. Its epoch is the offset at which this is decided."""
    if request.cluster_id != cluster.image.cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"broker {request.broker_id} belongs to cluster {request.cluster_id}, this is "
            f"{cluster.image.cluster_id}: check where it connects to, and meta.properties in its log.dirs",
        )
    existing = cluster.image.brokers.get(request.broker_id)
    same = existing is not None and existing.incarnation_id == request.incarnation_id
    unfenced_other = existing is not None and not same and not existing.fenced
    if unfenced_other and not _took_over(existing, request) and sessions.is_alive(request.broker_id, now_ms):
        raise ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"broker {request.broker_id} is running already: give this one another node.id, or stop "
            "the first",
        )
    if request.is_migrating_zk_broker:
        raise ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"broker {request.broker_id} asks to migrate from ZooKeeper, which needs Apache Kafka 3.9 "
            "or older",
        )
    _check_directories(cluster, request)
    _check_features(cluster, request)
    record = _registration(request)
    records: list[MetadataRecord] = []
    if existing is not None and same:
        record.broker_epoch = existing.epoch
        record.fenced = existing.fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
    else:
        record.broker_epoch = next_offset
        if cluster.elr_enabled and not _has_lost_nothing(existing, request):
            records += _after_unclean_shutdown(cluster, request.broker_id)
        elif existing is not None and not existing.fenced:
            # Its predecessor was killed, and has lost nothing; but it leads nowhere any more.
            records += _left_sync(cluster, request.broker_id)
    records.append(record)
    sessions.begin(request.broker_id, now_ms)
    return ControllerResult(records, BrokerRegistrationResponse(broker_epoch=record.broker_epoch))


def _has_lost_nothing(existing: BrokerRegistration | None, request: BrokerRegistrationRequest) -> bool:
    """Whether a process proves that it has all that the one before it had (KIP-966).

    One that registered, and ended before it was let in, may have left no proof of its own: that of any
    process since the last that was let in is as good, because nobody counted on anything since.
    """
    proven = request.previous_broker_epoch
    if existing is None or proven < 0:
        return False
    served_epoch = existing.epoch if existing.served_epoch == NO_EPOCH else existing.served_epoch
    return served_epoch <= proven <= existing.epoch


def _took_over(existing: BrokerRegistration | None, request: BrokerRegistrationRequest) -> bool:
    """Whether a process has the very folders and ports of the one before it: then that one has ended, for two
    can have neither."""
    if existing is None:
        return False
    asked = {each.name: (each.host, each.port) for each in request.listeners}
    had = {each.name: (each.host, each.port) for each in existing.endpoints.values()}
    return asked == had and set(request.log_dirs) == set(existing.directories) and bool(request.log_dirs)


def _registration(request: BrokerRegistrationRequest) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        end_points=[
            BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in request.listeners
        ],
        features=[
            BrokerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
        rack=request.rack,
        log_dirs=list(request.log_dirs),
    )


def _check_directories(cluster: ClusterState, request: BrokerRegistrationRequest) -> None:
    directories = request.log_dirs
    if not directories:
        raise ApiError(ErrorCode.INVALID_REGISTRATION, f"broker {request.broker_id} names no log directories")
    if any(map(is_reserved, directories)):
        raise ApiError(
            ErrorCode.INVALID_REGISTRATION,
            f"broker {request.broker_id} names a directory whose id is reserved: format it anew",
        )
    if len(set(directories)) != len(directories):
        raise ApiError(
            ErrorCode.INVALID_REGISTRATION,
            f"broker {request.broker_id} names two directories of one id: one is a copy of the other",
        )
    for broker in cluster.image.brokers.values():
        if broker.id != request.broker_id and not set(directories).isdisjoint(broker.directories):
            raise ApiError(
                ErrorCode.INVALID_REGISTRATION,
                f"broker {request.broker_id} names a directory that is registered as broker "
                f"{broker.id}'s: is it a copy?",
            )


def _check_features(cluster: ClusterState, request: BrokerRegistrationRequest) -> None:
    """A broker must be able to run every feature at the level in force."""
    supported = {
        f.name: VersionRange(f.min_supported_version, f.max_supported_version) for f in request.features
    }
    for name, level in cluster.image.finalized_features().items():
        # Kafka's brokers up to 4.0 did not tell of kraft.version, and could all run both.
        wanted = supported.get(name, VersionRange(0, 1) if name == "kraft.version" else VersionRange(0, 0))
        if level not in wanted:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the cluster runs {name} at {level}, and broker {request.broker_id} can run {wanted.min} to "
                f"{wanted.max}: use a release that can, or change the feature's level first",
            )
    assert METADATA_VERSION in cluster.image.features, "no broker registers before the bootstrap records"


def heartbeat(
    cluster: ClusterState,
    sessions: BrokerHeartbeatManager,
    request: BrokerHeartbeatRequest,
    *,
    next_offset: int,
    now_ms: int,
) -> ControllerResult[BrokerHeartbeatResponse]:
    """Note that a broker lives, and move it to the state that it asks for or is ready for."""
    broker = check_broker_epoch(cluster, request.broker_id, request.broker_epoch)
    current = _state(broker)
    following = _next_state(cluster, sessions, broker, request, now_ms)
    records: list[MetadataRecord] = []
    if following is not current:
        if following is State.UNFENCED:
            records += unfence(cluster, broker)
        elif following is State.CONTROLLED_SHUTDOWN:
            records += enter_controlled_shutdown(cluster, broker)
        elif not broker.fenced:
            records += fence(cluster, broker)
    elif current is State.CONTROLLED_SHUTDOWN and _leads(cluster, broker.id):
        # It leads again, or still: it could not go, and nobody it leads would come into sync with it.
        records += _left_sync(cluster, broker.id)
    is_handing_over = following is State.CONTROLLED_SHUTDOWN and bool(records)
    records += _directory_changes(cluster, broker, request)
    sessions.touch(broker.id, metadata_offset=request.current_metadata_offset, now_ms=now_ms)
    if is_handing_over:
        sessions.begin_shutdown(broker.id, next_offset + len(records) - 1, now_ms)
    reply = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= broker.epoch,
        is_fenced=following in (State.FENCED, State.SHUTDOWN_NOW),
        should_shut_down=following is State.SHUTDOWN_NOW,
    )
    return ControllerResult(records, reply)


def _state(broker: BrokerRegistration) -> State:
    if broker.fenced:
        return State.FENCED
    return State.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else State.UNFENCED


def _next_state(
    cluster: ClusterState,
    sessions: BrokerHeartbeatManager,
    broker: BrokerRegistration,
    request: BrokerHeartbeatRequest,
    now_ms: int,
) -> State:
    current = _state(broker)
    if current is State.FENCED:
        if request.want_shut_down:
            return State.SHUTDOWN_NOW
        caught_up = request.current_metadata_offset >= broker.epoch
        return State.UNFENCED if caught_up and not request.want_fence else State.FENCED
    if current is State.UNFENCED:
        if request.want_fence:
            return State.SHUTDOWN_NOW if request.want_shut_down else State.FENCED
        if request.want_shut_down:
            return State.CONTROLLED_SHUTDOWN if _leads(cluster, broker.id) else State.SHUTDOWN_NOW
        return State.UNFENCED
    if _leads(cluster, broker.id):
        return State.CONTROLLED_SHUTDOWN
    active = [other.id for other in cluster.image.brokers.values() if other.is_active]
    may_go = sessions.may_shut_down(broker.id, active, now_ms)
    return State.SHUTDOWN_NOW if may_go else State.CONTROLLED_SHUTDOWN


def _leads(cluster: ClusterState, broker_id: int) -> bool:
    return any(partition.leader == broker_id for _, _, partition in cluster.holdings.of_broker(broker_id))


def fence_silent(
    cluster: ClusterState, sessions: BrokerHeartbeatManager, now_ms: int, *, spare: int
) -> ControllerResult[int | None]:
    """Fence one broker whose session is over; the reply names it. One at a time: each moves leaders to
    others.

    A broker that holds very many partitions leaves them in several decisions, so that others are heard in
    between. Its session ends when the last one, which fences it, is written: until then it counts as silent
    still, and a decision that could not be written is made again.
    """
    for broker_id in sessions.silent(now_ms, spare):
        broker = cluster.image.brokers.get(broker_id)
        if broker is not None and not broker.fenced:
            return ControllerResult(list(islice(fence(cluster, broker), RECORDS_PER_REQUEST_MAX)), broker_id)
        sessions.end(broker_id)
    return ControllerResult((), None)


def unregister_broker(
    cluster: ClusterState, request: UnregisterBrokerRequest
) -> ControllerResult[UnregisterBrokerResponse]:
    """Forget a broker that will not come back."""
    broker = cluster.image.brokers.get(request.broker_id)
    if broker is None:
        raise ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {request.broker_id} is not currently registered"
        )
    records: list[MetadataRecord] = [
        *_changes(
            cluster,
            cluster.holdings.of_broker(broker.id),
            lambda p: broker.id in p.isr or broker.id in p.elr,
            without=broker.id,
            may_lead=lambda replica: replica != broker.id and cluster.is_active(replica),
        ),
        UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch),
    ]
    check_size(records)
    return ControllerResult(records, UnregisterBrokerResponse())


def tell_of_brokers(decision: ControllerResult[Reply]) -> ControllerResult[Reply]:
    """Log what a decision is for brokers: who comes and is fenced, and how many partitions change."""
    changed = sum(isinstance(record, PartitionChangeRecord) for record in decision.records)
    reply = decision.reply
    is_asked_for = isinstance(reply, BrokerHeartbeatResponse) and reply.should_shut_down
    for record in decision.records:
        if isinstance(record, RegisterBrokerRecord):
            places = ", ".join(f"{each.name}://{each.host}:{each.port}" for each in record.end_points)
            logger.info(
                "broker %d registers in epoch %d at %s", record.broker_id, record.broker_epoch, places
            )
        elif isinstance(record, BrokerRegistrationChangeRecord):
            if record.fenced == FENCE:
                # One that stops is fenced as well, when it leads nothing any more.
                level = logging.WARNING if changed and not is_asked_for else logging.INFO
                logger.log(level, "broker %d is fenced, %d partitions change", record.broker_id, changed)
            elif record.fenced == UNFENCE:
                logger.info("broker %d is unfenced, %d partitions change", record.broker_id, changed)
            elif record.in_controlled_shutdown:
                logger.info("broker %d shuts down, %d partitions change", record.broker_id, changed)
    return decision


def fence(cluster: ClusterState, broker: BrokerRegistration) -> Iterator[MetadataRecord]:
    """Take the broker out of every in-sync set and from every leadership."""
    yield from _left_sync(cluster, broker.id)
    yield BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=FENCE)


def unfence(cluster: ClusterState, broker: BrokerRegistration) -> list[MetadataRecord]:
    """Let the broker serve, and lead whatever has no leader and waits for it."""
    return [
        BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=UNFENCE),
        *_changes(
            cluster,
            cluster.holdings.without_leader(),
            lambda partition: partition.leader < 0,
            may_lead=lambda replica: replica == broker.id or cluster.is_active(replica),
        ),
    ]


def enter_controlled_shutdown(cluster: ClusterState, broker: BrokerRegistration) -> list[MetadataRecord]:
    """Move leaders away while the broker still serves them."""
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=ENTER_CONTROLLED_SHUTDOWN
        ),
        *_left_sync(cluster, broker.id),
    ]


def _left_sync(cluster: ClusterState, broker_id: int) -> Iterator[MetadataRecord]:
    return _changes(
        cluster,
        cluster.holdings.of_broker(broker_id),
        lambda partition: broker_id in partition.isr,
        without=broker_id,
        may_lead=lambda replica: replica != broker_id and cluster.is_active(replica),
    )


def _after_unclean_shutdown(cluster: ClusterState, broker_id: int) -> Iterator[MetadataRecord]:
    return _changes(
        cluster,
        cluster.holdings.of_broker(broker_id),
        lambda partition: broker_id in partition.isr or broker_id in partition.elr,
        without=broker_id,
        lost=(broker_id,),
        may_lead=lambda replica: replica != broker_id and cluster.is_active(replica),
    )


def _directory_changes(
    cluster: ClusterState, broker: BrokerRegistration, request: BrokerHeartbeatRequest
) -> Iterator[MetadataRecord]:
    """Directories that failed take their replicas out of sync; cordoned ones get no new replicas."""
    failed = set(broker.directories) & set(request.offline_log_dirs)
    if failed:
        yield from _changes(
            cluster,
            cluster.holdings.of_broker(broker.id),
            lambda p: broker.id in p.isr and p.directory_of(broker.id) in failed,
            without=broker.id,
            may_lead=lambda replica: replica != broker.id and cluster.is_active(replica),
        )
        left = [directory for directory in broker.directories if directory not in failed]
        # The record cannot tell of none at all: a broker that has lost every directory stops by itself.
        if left:
            yield BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left
            )
    cordoned = request.cordoned_log_dirs
    can_be_written = cluster.image.features.get(METADATA_VERSION, 0) >= CORDONS_FROM
    if can_be_written and cordoned is not None and tuple(cordoned) != broker.cordoned_directories:
        yield BrokerRegistrationChangeRecord(
            broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned)
        )


def _changes(
    cluster: ClusterState,
    partitions: Iterable[tuple[TopicImage, int, PartitionImage]],
    concerns: Callable[[PartitionImage], bool],
    *,
    may_lead: Callable[[int], bool],
    without: int | None = None,
    lost: tuple[int, ...] = (),
) -> Iterator[MetadataRecord]:
    """What becomes of every partition that an event concerns.

    A broker may hold a hundred thousand partitions, but few different ones: those that are alike but for
    their epochs, in topics of the same rules, fare alike, and that is thought through once.
    """
    outcomes: dict[object, dict[object, PartitionChangeRecord | None]] = {}
    current: TopicImage | None = None
    for topic, index, partition in partitions:
        if topic is not current:
            current, known = topic, outcomes.setdefault(election_rules(cluster, topic), {})
        shape = partition.shape
        if shape in known:
            outcome = known[shape]
            if outcome is not None:
                yield same_change(outcome, topic.id, index)
            continue
        record = None
        if concerns(partition):
            in_sync = [replica for replica in partition.isr if replica != without]
            record = change_partition(cluster, topic, index, isr=in_sync, lost=lost, may_lead=may_lead)
        known[shape] = record
        if record is not None:
            yield record
