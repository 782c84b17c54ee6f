"""Control records of the metadata log and its snapshots, and the quorum-state file.

The log's leader writes a LeaderChangeMessage at the start of its epoch (KIP-595); a snapshot opens with a
header and closes with a footer (KIP-630); the set of voters and its version travel as records too
(KIP-853). QuorumStateData is kept as JSON next to the log: the vote that must survive a crash.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import NO_UUID, Since, Until, int16, int32, int64, message, struct, uint16, uuid


@struct
class LeaderChangeMessageVoter:
    voter_id: int32 = 0
    voter_directory_id: Annotated[uuid, Since(1)] = NO_UUID


@message(versions=range(2), flexible_from=0)
class LeaderChangeMessage:
    version: int16 = 0
    leader_id: int32 = 0
    voters: list[LeaderChangeMessageVoter] = field(default_factory=list)
    granting_voters: list[LeaderChangeMessageVoter] = field(default_factory=list)  # who voted for the leader


@message(versions=range(1), flexible_from=0)
class SnapshotHeaderRecord:
    version: int16 = 0
    last_contained_log_timestamp: int64 = 0  # append time of the last record the snapshot covers


@message(versions=range(1), flexible_from=0)
class SnapshotFooterRecord:
    version: int16 = 0


@message(versions=range(1), flexible_from=0)
class KRaftVersionRecord:
    version: int16 = 0
    kraft_version: int16 = 0


@struct
class Endpoint:
    name: str = ""
    host: str = ""
    port: uint16 = 0


@struct
class KRaftVersionFeature:
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


@struct
class VotersVoter:
    voter_id: int32 = 0
    voter_directory_id: uuid = NO_UUID
    endpoints: list[Endpoint] = field(default_factory=list)
    kraft_version_feature: KRaftVersionFeature = field(default_factory=KRaftVersionFeature)


@message(versions=range(1), flexible_from=0)
class VotersRecord:
    version: int16 = 0
    voters: list[VotersVoter] = field(default_factory=list)


@struct
class QuorumStateDataVoter:
    voter_id: int32 = 0


@message(versions=range(2), flexible_from=0)
class QuorumStateData:
    cluster_id: Annotated[str, Until(0)] = ""
    leader_id: int32 = -1
    leader_epoch: int32 = -1
    voted_id: int32 = -1
    voted_directory_id: Annotated[uuid, Since(1)] = NO_UUID
    applied_offset: Annotated[int64, Until(0)] = 0
    current_voters: Annotated[list[QuorumStateDataVoter] | None, Until(0)] = field(default_factory=list)
