"""ACLs, SCRAM credentials, quotas and delegation tokens: kept as the records that made them, so that none
is lost.

Each kind is a table from what identifies an entry to the record; a removing record takes the entry out.
What the entries mean is for `security` and `server` to say.
"""

from typing import NamedTuple

from headrace.metadata.delta import MetadataDelta
from headrace.wire.schemas.metadata_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

ACLS = "acls"
SCRAM = "scram"
QUOTAS = "quotas"
TOKENS = "tokens"
"""The names under which a delta tells of a change."""


class ScramKey(NamedTuple):
    """A user and one mechanism (1 SCRAM-SHA-256, 2 SCRAM-SHA-512)."""

    user: str
    mechanism: int


class QuotaKey(NamedTuple):
    """Whom a quota binds, as sorted (entity type, name or None for the default) pairs, and which limit it
    is.
    """

    entity: tuple[tuple[str, str | None], ...]
    limit: str


def quota_key(record: ClientQuotaRecord) -> QuotaKey:
    # Types are unique within an entity, so sorting never compares a name with None.
    return QuotaKey(tuple(sorted((e.entity_type, e.entity_name) for e in record.entity)), record.key)


class SecurityTables:
    """Who may do what, how they prove who they are, and how much they may use."""

    __slots__ = (ACLS, QUOTAS, SCRAM, TOKENS)

    def __init__(self) -> None:
        self.acls: dict[bytes, AccessControlEntryRecord] = {}
        self.scram: dict[ScramKey, UserScramCredentialRecord] = {}
        self.quotas: dict[QuotaKey, ClientQuotaRecord] = {}
        self.tokens: dict[str, DelegationTokenRecord] = {}

    def copy(self) -> "SecurityTables":
        twin = SecurityTables()
        twin.acls, twin.scram = dict(self.acls), dict(self.scram)
        twin.quotas, twin.tokens = dict(self.quotas), dict(self.tokens)
        return twin

    def replay_acl(self, record: AccessControlEntryRecord, delta: MetadataDelta) -> None:
        self.acls[record.id] = record
        delta.security_changed.add(ACLS)

    def replay_remove_acl(self, record: RemoveAccessControlEntryRecord, delta: MetadataDelta) -> None:
        self.acls.pop(record.id, None)
        delta.security_changed.add(ACLS)

    def replay_scram(self, record: UserScramCredentialRecord, delta: MetadataDelta) -> None:
        self.scram[ScramKey(record.name, record.mechanism)] = record
        delta.security_changed.add(SCRAM)

    def replay_remove_scram(self, record: RemoveUserScramCredentialRecord, delta: MetadataDelta) -> None:
        self.scram.pop(ScramKey(record.name, record.mechanism), None)
        delta.security_changed.add(SCRAM)

    def replay_quota(self, record: ClientQuotaRecord, delta: MetadataDelta) -> None:
        if record.remove:
            self.quotas.pop(quota_key(record), None)
        else:
            self.quotas[quota_key(record)] = record
        delta.security_changed.add(QUOTAS)

    def replay_token(self, record: DelegationTokenRecord, delta: MetadataDelta) -> None:
        self.tokens[record.token_id] = record
        delta.security_changed.add(TOKENS)

    def replay_remove_token(self, record: RemoveDelegationTokenRecord, delta: MetadataDelta) -> None:
        self.tokens.pop(record.token_id, None)
        delta.security_changed.add(TOKENS)
