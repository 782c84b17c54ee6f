"""Who votes: the members of the quorum, with the directory and the listeners each can be reached by
(KIP-853).

With kraft.version 0 the set comes from controller.quorum.voters and has no directories; from version 1 on
it is a record of the log itself, and the log can change it. A change is in force as soon as it is in a
node's log, committed or not, and out of force again where that part of the log is cut.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.raft.messages import NO_DIRECTORY
from headrace.wire.schemas.quorum_records import Endpoint, KRaftVersionFeature, VotersRecord, VotersVoter

KRAFT_VERSIONS: Final = (0, 1)
"""The least and the greatest kraft.version this release can run."""


@dataclass(frozen=True, slots=True)
class Voter:
    """One member. `endpoints` maps a listener's name to where it listens."""

    id: int
    directory_id: bytes
    endpoints: Mapping[str, tuple[str, int]]
    kraft_versions: tuple[int, int] = KRAFT_VERSIONS


class VoterSet:
    """The members by id."""

    def __init__(self, voters: Iterable[Voter]) -> None:
        self.by_id: dict[int, Voter] = {voter.id: voter for voter in voters}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self.by_id == other.by_id

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"VoterSet({list(self.by_id.values())})"

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(self.by_id)

    @property
    def directories(self) -> dict[int, bytes]:
        """What the core counts by: each voter's id and its directory."""
        return {voter.id: voter.directory_id for voter in self.by_id.values()}

    @classmethod
    def from_record(cls, record: VotersRecord) -> "VoterSet":
        return cls(
            Voter(
                voter.voter_id,
                voter.voter_directory_id,
                {endpoint.name: (endpoint.host, endpoint.port) for endpoint in voter.endpoints},
                (
                    voter.kraft_version_feature.min_supported_version,
                    voter.kraft_version_feature.max_supported_version,
                ),
            )
            for voter in record.voters
        )

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            voters=[
                VotersVoter(
                    voter_id=voter.id,
                    voter_directory_id=voter.directory_id,
                    endpoints=[
                        Endpoint(name=name, host=host, port=port)
                        for name, (host, port) in voter.endpoints.items()
                    ],
                    kraft_version_feature=KRaftVersionFeature(
                        min_supported_version=voter.kraft_versions[0],
                        max_supported_version=voter.kraft_versions[1],
                    ),
                )
                for voter in self.by_id.values()
            ]
        )

    @classmethod
    def from_setting(cls, text: Iterable[str], listener: str = "CONTROLLER") -> "VoterSet":
        """From the entries of controller.quorum.voters: id@host:port. ValueError where one has another
        form.
        """
        voters = []
        for entry in text:
            number, _, address = entry.partition("@")
            host, _, port = address.rpartition(":")
            if not host or not port.isdigit() or not number.strip().isdigit():
                raise ValueError(f"controller.quorum.voters: {entry!r} is not of the form id@host:port")
            voters.append(Voter(int(number), NO_DIRECTORY, {listener: (host.strip("[]"), int(port))}))
        return cls(voters)


class VoterSetHistory:
    """Who voted, and in which kraft.version, from which offset of the log on. The first entry stands for what
    was known before the log: the settings, or a snapshot."""

    def __init__(self, *, kraft_version: int = 0, voters: VoterSet | None = None) -> None:
        self._entries: list[tuple[int, int, VoterSet | None]] = [(-1, kraft_version, voters)]

    @property
    def kraft_version(self) -> int:
        return self._entries[-1][1]

    @property
    def voters(self) -> VoterSet | None:
        return self._entries[-1][2]

    @property
    def changed_at(self) -> int:
        """The offset of the last change; -1 where the log has none."""
        return self._entries[-1][0]

    def assume(self, voters: VoterSet) -> None:
        """The settings name the voters, for a log that does not."""
        self._entries = [(at, version, known or voters) for at, version, known in self._entries]

    def note(self, offset: int, *, kraft_version: int | None = None, voters: VoterSet | None = None) -> None:
        version = self.kraft_version if kraft_version is None else kraft_version
        self._entries.append((offset, version, voters or self.voters))

    def cut(self, end_offset: int) -> None:
        """The log now ends at `end_offset`."""
        while len(self._entries) > 1 and self._entries[-1][0] >= end_offset:
            self._entries.pop()

    def at(self, end_offset: int) -> tuple[int, VoterSet | None]:
        """kraft.version and voters as everything below an offset says."""
        for offset, version, voters in reversed(self._entries):
            if offset < end_offset:
                return version, voters
        return self._entries[0][1:]
