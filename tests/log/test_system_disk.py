"""What the system's disk says when a sync fails."""

import errno

import pytest

from headrace.log import system_disk
from headrace.log.system_disk import SystemDisk


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_sync_that_finds_no_room_is_a_failure_like_any_other(tmp_path, monkeypatch, number):
    """What it could not write is gone, while a write that finds no room takes nothing away."""
    file = SystemDisk().open(f"{tmp_path}/log", create=True)
    file.write(0, [b"data"])

    def refuse(descriptor):
        raise OSError(number, "no")

    monkeypatch.setattr(system_disk, "_sync_data", refuse)
    with pytest.raises(OSError, match="log") as raised:
        file.sync()
    assert raised.value.errno == errno.EIO
    file.close()
