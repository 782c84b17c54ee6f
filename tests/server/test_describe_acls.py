"""DescribeAcls without an authorizer."""

from pathlib import Path

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.describe_acls import DescribeAclsRequest
from tests.server.desk import Desk, at_desk


def test_there_are_no_rules_to_describe(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        for version in range(1, 4):
            response = await desk.ask(DescribeAclsRequest(), version)
            assert (response.error_code, response.resources) == (ErrorCode.SECURITY_DISABLED, [])

    at_desk(tmp_path, script)
