"""The quorum-state file: the epoch and the vote, which must survive a crash, as the JSON that Kafka writes.

Form 1 goes with kraft.version 1. Form 0 also names the cluster, an offset that nobody uses, and the voters;
it is written under kraft.version 0 and read under both. The file is replaced as a whole and synced before
anything that rests on it is sent or appended. White space behind it is its checksum (`log.checkpoints.seal`).
"""

import json
from collections.abc import Iterable
from typing import Final

from headrace.base.errors import InvalidBytesError
from headrace.base.ids import uuid_bytes, uuid_text
from headrace.log.checkpoints import seal, unseal
from headrace.log.disk import Disk
from headrace.raft.messages import NO_DIRECTORY, ElectionState

FILE_NAME: Final = "quorum-state"


def encode_state(state: ElectionState, *, kraft_version: int, voters: Iterable[int]) -> bytes:
    """The file's bytes, in the form that goes with `kraft_version`."""
    fields: dict[str, object] = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": state.voted_id,
    }
    if kraft_version:
        fields |= {"votedDirectoryId": uuid_text(state.voted_directory_id)}
    else:
        listed = [{"voterId": voter} for voter in sorted(voters)]
        fields = {"clusterId": "", **fields, "appliedOffset": 0, "currentVoters": listed}
    fields["data_version"] = 1 if kraft_version else 0
    return seal(json.dumps(fields, separators=(",", ":")).encode())


def decode_state(data: bytes) -> ElectionState:
    """The reverse, for both forms."""
    try:
        fields = json.loads(unseal(data))
        version = fields["data_version"]
        directory = uuid_bytes(fields["votedDirectoryId"]) if version >= 1 else NO_DIRECTORY
        state = ElectionState(
            epoch=int(fields["leaderEpoch"]),
            leader_id=int(fields["leaderId"]),
            voted_id=int(fields["votedId"]),
            voted_directory_id=directory,
        )
    except InvalidBytesError as error:
        raise InvalidBytesError(f"quorum-state is not as it was written: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidBytesError(f"quorum-state holds {data[:16]!r}, not the vote that was written") from error
    if version not in (0, 1):
        raise InvalidBytesError(f"quorum-state has data_version {version}; this release knows 0 and 1")
    return state


def read_state(disk: Disk, folder: str) -> ElectionState:
    """What the node last promised; the beginning where it never promised anything."""
    path = f"{folder}/{FILE_NAME}"
    if not disk.exists(path):
        return ElectionState()
    try:
        return decode_state(disk.read_file(path))
    except InvalidBytesError as error:
        raise InvalidBytesError(
            f"{path} is damaged: {error}. It says for whom this node has voted. Bring it back from a copy; "
            "without one, remove it where this is the only controller, else format this node anew and let it "
            "join the others"
        ) from error
