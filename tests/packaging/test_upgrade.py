"""The short form of `python -m tests.packaging.upgrade`: one of three machines is upgraded and downgraded."""

from pathlib import Path

import pytest

from tests.packaging import upgrade

EARLIER = [f"HEAD~{number}" for number in range(1, 6)]


@pytest.mark.timeout(300)
def test_no_client_sees_an_upgrade_or_a_downgrade(tmp_path: Path) -> None:
    try:
        assert upgrade.run(tmp_path, commits=EARLIER, machines=1, only="confluent") == []
    except upgrade.NoHistoryError as reason:
        pytest.skip(f"there is no earlier commit here: {reason}")
