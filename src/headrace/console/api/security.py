"""Access rules, users who log in by SCRAM, and quotas."""

from typing import Any, Final

from headrace.base.error_codes import ErrorCode
from headrace.clients import (
    AclBinding,
    AclBindingFilter,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from headrace.clients.errors import RefusedError
from headrace.console.http_server import RefusedCallError
from headrace.console.visit import Visit, names_in, text_of
from headrace.security.sasl.mechanism import SCRAM_SHA_512

_ACL_FIELDS: Final = AclBinding._fields


async def acls(visit: Visit) -> Any:
    """All rules; `is_open` where the brokers ask for none."""
    try:
        found = await visit.admin.describe_acls()
    except RefusedError as error:
        if error.code != ErrorCode.SECURITY_DISABLED:
            raise
        return {"acls": [], "is_open": True}
    return {"acls": [each._asdict() for each in found], "is_open": False}


def _binding(visit: Visit) -> AclBinding:
    body = visit.request.json()
    fields = {name: text_of(body, name) for name in _ACL_FIELDS if name in body}
    for name in ("principal", "operation", "resource_type"):
        if not fields.get(name):
            raise RefusedCallError(400, f"{name!r} is missing")
    binding = AclBinding(**fields)
    visit.details["acl"] = binding._asdict()
    return binding


async def create_acl(visit: Visit) -> Any:
    await visit.admin.create_acls(_binding(visit))
    return await acls(visit)


async def delete_acl(visit: Visit) -> Any:
    """Exactly one rule, with all its fields."""
    each = _binding(visit)
    wanted = AclBindingFilter(
        principal=each.principal,
        operation=each.operation,
        resource_type=each.resource_type,
        resource_name=each.resource_name,
        pattern=each.pattern,
        permission=each.permission,
        host=each.host,
    )
    if not await visit.admin.delete_acls(wanted):
        raise RefusedCallError(404, "there is no such rule any more")
    return await acls(visit)


async def users(visit: Visit) -> Any:
    return {"users": [each._asdict() for each in await visit.admin.describe_user_scram_credentials()]}


async def alter_user(visit: Visit) -> Any:
    """Make a user, or give one another password. It is hashed here: the cluster never has it."""
    body = visit.request.json()
    user, password = text_of(body, "user"), text_of(body, "password")
    mechanism = text_of(body, "mechanism", default=SCRAM_SHA_512)
    visit.details |= {"user": user, "mechanism": mechanism}
    if not user or not password:
        raise RefusedCallError(400, "a user has a name and a password")
    upsertion = UserScramCredentialUpsertion(user, password, mechanism)
    await visit.admin.alter_user_scram_credentials(upsertion)
    return await users(visit)


async def delete_user(visit: Visit) -> Any:
    """Let a user log in no more by one mechanism."""
    body = visit.request.json()
    user, mechanism = text_of(body, "user"), text_of(body, "mechanism")
    visit.details |= {"user": user, "mechanism": mechanism}
    await visit.admin.alter_user_scram_credentials(UserScramCredentialDeletion(user, mechanism))
    return await users(visit)


async def quotas(visit: Visit) -> Any:
    found = await visit.admin.describe_client_quotas()
    return {"quotas": [{"entity": each.entity, "limits": each.limits} for each in found]}


async def alter_quota(visit: Visit) -> Any:
    body = visit.request.json()
    entity = body.get("entity")
    set_to = body.get("set", {})
    if not isinstance(entity, dict) or not entity or not isinstance(set_to, dict):
        raise RefusedCallError(400, "'entity' and 'set' must be objects")
    if not all(isinstance(each, int | float) for each in set_to.values()):
        raise RefusedCallError(400, "limits are numbers")
    visit.details |= {"entity": entity, "limits": sorted(set_to)}
    await visit.admin.alter_client_quotas(entity, set_to=set_to, remove=names_in(body, "remove"))
    return await quotas(visit)
