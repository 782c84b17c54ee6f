"""The kinds of places that transport is tried in: kernel sockets and a simulated network."""

import pytest

from tests.transport.harness import KINDS, Place


@pytest.fixture(params=KINDS)
def place(request):
    place = Place(request.param)
    yield place
    place.close()
