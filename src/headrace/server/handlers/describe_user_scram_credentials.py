"""DescribeUserScramCredentials (50), v0: which users log in by SCRAM, and with how many iterations (KIP-554).

All users where none is named. RESOURCE_NOT_FOUND for one that there is not, DUPLICATE_RESOURCE for one that
is named twice. Told by this node's image; salts and keys never leave.
"""

from collections import Counter

from headrace.base.error_codes import ErrorCode
from headrace.metadata.security import ScramKey
from headrace.security.sasl import scram
from headrace.server.context import RequestContext
from headrace.server.long_requests import Slices, in_slices, unless_short
from headrace.wire.schemas.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse | Slices[DescribeUserScramCredentialsResponse]:
    named = Counter(each.name for each in request.users or ())
    stored = context.parts.image.security.scram
    if not named:
        named = Counter(dict.fromkeys((key.user for key in stored), 1))
    return unless_short(len(named), _describe(context, named))


def _describe(context: RequestContext, named: Counter[str]) -> Slices[DescribeUserScramCredentialsResponse]:
    results = yield from in_slices(named.items(), lambda each: _result(context, *each))
    return DescribeUserScramCredentialsResponse(results=results)


def _result(context: RequestContext, name: str, times: int) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return DescribeUserScramCredentialsResult(
            name,
            ErrorCode.DUPLICATE_RESOURCE,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    stored = context.parts.image.security.scram
    records = [stored.get(ScramKey(name, number)) for number in scram.BY_NUMBER]
    infos = [CredentialInfo(each.mechanism, each.iterations) for each in records if each is not None]
    if not infos:
        return DescribeUserScramCredentialsResult(
            name,
            ErrorCode.RESOURCE_NOT_FOUND,
            f"Attempt to describe a user credential that does not exist: {name}",
        )
    return DescribeUserScramCredentialsResult(name, credential_infos=infos)
