"""Every test that asks for `disk` runs on the system's files and on those in memory."""

import pytest

from headrace.log.system_disk import SystemDisk
from headrace.testing.disk import VirtualDisk
from tests.log.building import LogBuilder


@pytest.fixture(params=["system", "virtual"])
def disk(request):
    return SystemDisk() if request.param == "system" else VirtualDisk()


@pytest.fixture
def root(disk, tmp_path):
    """A folder that exists on `disk`."""
    path = str(tmp_path / "data")
    disk.make_folder(path)
    return path


@pytest.fixture
def logs(disk, root):
    """Opens and reopens the log of one partition."""
    return LogBuilder(disk, root)
