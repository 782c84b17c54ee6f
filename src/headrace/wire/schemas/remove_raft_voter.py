"""RemoveRaftVoter (81), v0: a voter of the quorum becomes an observer.

KIP-853. VOTER_NOT_FOUND for one that is none. A leader that removes itself resigns when that is committed.
"""

from __future__ import annotations

from headrace.wire.notation import NO_UUID, int16, int32, message, uuid


@message(api_key=81, versions=range(1), flexible_from=0)
class RemoveRaftVoterRequest:
    cluster_id: str | None = ""
    voter_id: int32 = 0
    voter_directory_id: uuid = NO_UUID


@message(api_key=81, versions=range(1), flexible_from=0)
class RemoveRaftVoterResponse:
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
