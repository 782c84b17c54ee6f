"""What a controller writes when it becomes active: the first records of an empty log, or the end of an old
change.

A new cluster's records come from `bootstrap.checkpoint` and go into one metadata transaction, so that
nobody sees a cluster that has agreed on half of its features. A transaction that the last controller left
open is aborted.
"""

from collections.abc import Sequence

from headrace.controller.cluster_state import ClusterState
from headrace.controller.controller_result import ControllerResult
from headrace.metadata.config_resource import CLUSTER_DEFAULT
from headrace.metadata.features import BOOTSTRAP_LEVELS, ELR_VERSION
from headrace.metadata.image import MetadataRecord
from headrace.wire.schemas.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from headrace.wire.schemas.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    EndTransactionRecord,
    FeatureLevelRecord,
    RegisterControllerRecord,
)


def default_bootstrap() -> list[MetadataRecord]:
    """What a new cluster agrees on: everything this release can run."""
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in BOOTSTRAP_LEVELS.items()]


def activate(cluster: ClusterState, bootstrap: Sequence[MetadataRecord]) -> ControllerResult[None]:
    """Bring the log to a state that requests can be decided on."""
    if cluster.image.in_transaction:
        return ControllerResult([AbortTransactionRecord(reason="The controller was restarted.")], None)
    if cluster.image.features:
        return ControllerResult((), None)
    records: list[MetadataRecord] = [BeginTransactionRecord(name="Bootstrap records"), *bootstrap]
    levels = {r.name: r.feature_level for r in bootstrap if isinstance(r, FeatureLevelRecord)}
    if levels.get(ELR_VERSION, 0):
        records += min_isr_default(cluster)
    return ControllerResult([*records, EndTransactionRecord()], None)


def min_isr_default(cluster: ClusterState) -> list[MetadataRecord]:
    """Eligible leaders need one min.insync.replicas for the whole cluster: make the one in force its
    default.
    """
    kind, name = CLUSTER_DEFAULT
    if "min.insync.replicas" in cluster.image.config_of(kind, name):
        return []
    value = str(cluster.config.int("min.insync.replicas"))
    return [ConfigRecord(resource_type=kind, resource_name=name, name="min.insync.replicas", value=value)]


def register_controller(
    request: ControllerRegistrationRequest,
) -> ControllerResult[ControllerRegistrationResponse]:
    """Note where a controller listens and what it can run (KIP-919)."""
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in request.listeners
        ],
        features=[
            ControllerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
    )
    return ControllerResult([record], ControllerRegistrationResponse(error_message=None))
