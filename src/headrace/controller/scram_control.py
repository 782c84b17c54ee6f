"""Users who log in by SCRAM (Kafka's ScramControlManager): AlterUserScramCredentials (KIP-554).

The request brings passwords that are salted and hashed already; what a login is checked by follows from them
here, and is all that the log keeps. Each user succeeds or fails as a whole: with one change that is wrong
none of that user's is made.
"""

from collections.abc import Iterator
from typing import Final

from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.cluster_state import ClusterState
from headrace.controller.controller_result import ControllerResult, check_size
from headrace.metadata.features import METADATA_VERSION
from headrace.metadata.image import MetadataRecord
from headrace.metadata.security import ScramKey
from headrace.security.sasl import scram
from headrace.wire.schemas.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headrace.wire.schemas.metadata_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord

SCRAM_SINCE: Final = 11
"""The metadata.version whose brokers know these records, 3.5-IV2."""

Change = ScramCredentialDeletion | ScramCredentialUpsertion


def alter_user_scram_credentials(
    cluster: ClusterState, request: AlterUserScramCredentialsRequest
) -> ControllerResult[AlterUserScramCredentialsResponse]:
    changes: list[Change] = [*request.deletions, *request.upsertions]
    results = {each.name: AlterUserScramCredentialsResult(each.name, 0, None) for each in changes}
    seen: set[ScramKey] = set()
    for each in changes:
        result, key = results[each.name], ScramKey(each.name, each.mechanism)
        error = _fault(cluster, each) if key not in seen else _TWICE
        seen.add(key)
        if error is not None and not result.error_code:
            result.error_code, result.error_message = error.code, error.message
    records = [_record(each) for each in changes if not results[each.name].error_code]
    check_size(records)
    return ControllerResult(records, AlterUserScramCredentialsResponse(results=list(results.values())))


_TWICE: Final = ApiError(
    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
)


def _fault(cluster: ClusterState, change: Change) -> ApiError | None:
    return next(_faults(cluster, change), None)


def _faults(cluster: ClusterState, change: Change) -> Iterator[ApiError]:
    if cluster.image.finalized_features().get(METADATA_VERSION, 0) < SCRAM_SINCE:
        yield ApiError(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
    if not change.name:
        yield ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in scram.BY_NUMBER:
        yield ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(change, ScramCredentialUpsertion):
        if change.iterations < scram.ITERATIONS_MIN:
            yield ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if change.iterations > scram.ITERATIONS_MAX:
            yield ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        if not change.salt or not change.salted_password:
            yield ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "A salt and a salted password are needed")
    elif ScramKey(change.name, change.mechanism) not in cluster.image.security.scram:
        yield ApiError(
            ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        )


def _record(change: Change) -> MetadataRecord:
    if isinstance(change, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    digest = scram.BY_NUMBER[change.mechanism].digest
    stored = scram.credential_of(digest, change.salted_password, change.salt, change.iterations)
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=stored.salt,
        stored_key=stored.stored_key,
        server_key=stored.server_key,
        iterations=stored.iterations,
    )
