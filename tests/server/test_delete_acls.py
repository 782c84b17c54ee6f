"""DeleteAcls without an authorizer."""

from pathlib import Path

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.server.desk import Desk, at_desk


def test_every_filter_is_refused(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        for version in range(1, 4):
            response = await desk.ask(DeleteAclsRequest([DeleteAclsFilter()]), version)
            assert [r.error_code for r in response.filter_results] == [ErrorCode.SECURITY_DISABLED]

    at_desk(tmp_path, script)
