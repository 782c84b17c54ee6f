"""CreateAcls without an authorizer."""

from pathlib import Path

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.create_acls import AclCreation, CreateAclsRequest
from tests.server.desk import Desk, at_desk


def test_every_rule_is_refused(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        for version in range(1, 4):
            response = await desk.ask(CreateAclsRequest([AclCreation(), AclCreation()]), version)
            assert [r.error_code for r in response.results] == [ErrorCode.SECURITY_DISABLED] * 2

    at_desk(tmp_path, script)
