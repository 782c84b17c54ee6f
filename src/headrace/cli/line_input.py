"""Lines from a file, a pipe or a keyboard, with a word when there is nothing more for the moment.

A producer gathers lines into batches, but what a person has typed or another program has printed should not
wait for more to come: `None` between lines says that the input is idle.
"""

import io
import os
import select
from collections.abc import Iterator
from typing import BinaryIO, Final

_READ_BYTES: Final = 64 * 1024


def lines_or_idle(stream: BinaryIO) -> Iterator[bytes | None]:
    """Each line without its end; None whenever reading on would wait. The last line needs no end."""
    try:
        descriptor = stream.fileno()
    except (io.UnsupportedOperation, AttributeError):
        yield from (line.rstrip(b"\n").removesuffix(b"\r") for line in stream)
        return
    rest = b""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while True:
        if not poll.poll(0):
            yield None
        data = os.read(descriptor, _READ_BYTES)
        if not data:
            break
        *whole, rest = (rest + data).split(b"\n")
        yield from (line.removesuffix(b"\r") for line in whole)
    if rest:
        yield rest.removesuffix(b"\r")
