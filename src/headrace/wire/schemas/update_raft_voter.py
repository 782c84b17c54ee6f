"""UpdateRaftVoter (82), v0: a voter changes its endpoints or the kraft.versions it can run.

KIP-853.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from headrace.wire.notation import NO_UUID, OMITTED_IS_NONE, Tag, int16, int32, message, struct, uint16, uuid


@struct
class Listener:
    name: str = ""
    host: str = ""
    port: uint16 = 0


@struct
class KRaftVersionFeature:
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


@message(api_key=82, versions=range(1), flexible_from=0)
class UpdateRaftVoterRequest:
    cluster_id: str | None = ""
    current_leader_epoch: int32 = 0
    voter_id: int32 = 0
    voter_directory_id: uuid = NO_UUID
    listeners: list[Listener] = field(default_factory=list)
    kraft_version_feature: KRaftVersionFeature = field(default_factory=KRaftVersionFeature)


@struct
class CurrentLeader:
    leader_id: int32 = -1
    leader_epoch: int32 = -1
    host: str = ""
    port: int32 = 0


@message(api_key=82, versions=range(1), flexible_from=0)
class UpdateRaftVoterResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    current_leader: Annotated[CurrentLeader | None, Tag(0), OMITTED_IS_NONE] = None
