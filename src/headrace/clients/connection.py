"""One connection to one broker, for a client that waits: send a request, wait for its answer.

Several requests may be on their way at once: `send` gives a `Pending`, and `receive` waits for its answer,
keeping others that come first. The first exchange asks for the broker's versions (ApiVersions), so that every
later request goes out in the highest version that both sides speak.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from headrace.base.chunks import FileSlice
from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import InvalidBytesError
from headrace.clients.errors import RefusedError, TimedOutError, UnreachableError
from headrace.clients.versions import VersionTable
from headrace.clients.waiting import Waiter
from headrace.transport.network import Network, Socket
from headrace.wire.apis import API, API_VERSIONS
from headrace.wire.framing import read_response, request_frame, response_correlation_id
from headrace.wire.notation import schema_of
from headrace.wire.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse

# A frame larger than this is no answer of a broker: whoever listens there speaks something else.
FRAME_BYTES_MAX: Final = 1 << 30
READ_BYTES: Final = 256 * 1024
# Other loopback addresses of the same name: a node may listen on one of them alone.
_ADDRESSES: Final = {"localhost": ("127.0.0.1", "::1")}


@dataclass(frozen=True, slots=True)
class World:
    """What a client gets from outside: the network, the time, and how to wait."""

    network: Network
    clock: Clock
    waiter: Waiter


@dataclass(slots=True)
class Pending:
    """A request that waits for its answer."""

    correlation_id: int
    api_key: int
    version: int
    frame: bytes | None = field(default=None, repr=False)


class BrokerConnection:
    """A blocking connection. After an error other than RefusedError it is closed and of no further use."""

    def __init__(self, world: World, host: str, port: int, *, client_id: str, timeout_ms: int) -> None:
        """Connects and asks for the broker's versions; UnreachableError or TimedOutError where that fails."""
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._world = world
        self._client_id = client_id
        self._next_id = 0
        self._pending: dict[int, Pending] = {}
        self._received = bytearray()
        self._scratch = bytearray(READ_BYTES)
        deadline = world.clock.monotonic_ms() + timeout_ms
        self._socket = self._connect(host, port, deadline)
        self.versions = VersionTable(self.address, ())
        try:
            self._negotiate(deadline)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def call(self, request: Any, *, timeout_ms: int, at_most: int | None = None) -> Any:
        """Send a request and wait for its answer."""
        pending = self.send(request, timeout_ms=timeout_ms, at_most=at_most)
        return self.receive(pending, timeout_ms=timeout_ms)

    def send(self, request: Any, *, timeout_ms: int, at_most: int | None = None) -> Pending:
        """Send a request; its answer is fetched with `receive`."""
        api_key = schema_of(type(request)).api_key
        assert api_key is not None, f"{type(request).__name__} is no request"
        version = self.versions.choose(api_key, at_most=at_most)
        return self._send(request, api_key, version, self._world.clock.monotonic_ms() + timeout_ms)

    def forget(self, pending: Pending) -> None:
        """No answer will come, as with acks=0."""
        self._pending.pop(pending.correlation_id, None)

    def receive(self, pending: Pending, *, timeout_ms: int) -> Any:
        """Wait for the answer to a request; TimedOutError where it does not come in time."""
        deadline = self._world.clock.monotonic_ms() + timeout_ms
        while pending.frame is None:
            self._read(deadline, what=API[pending.api_key].name)
        return self._decode(pending)

    def poll(self, pending: Pending) -> Any | None:
        """The answer if it has come, once the socket was readable; None if it has not."""
        if pending.frame is None:
            self._read(self._world.clock.monotonic_ms(), what="", must_come=False)
        return None if pending.frame is None else self._decode(pending)

    # Inside

    def _connect(self, host: str, port: int, deadline: int) -> Socket:
        failure: OSError | None = None
        for address in _ADDRESSES.get(host, (host,)):
            try:
                socket = self._world.network.connect(address, port)
            except OSError as error:
                failure = error
                continue
            if not self._world.waiter.writable(socket.fileno(), deadline - self._world.clock.monotonic_ms()):
                socket.close()
                raise TimedOutError(f"{self.address} does not answer: is the address right?")
            try:
                socket.send([])  # the first use tells whether the connection came about
            except BlockingIOError:
                pass
            except OSError as error:
                socket.close()
                failure = error
                continue
            return socket
        raise _unreachable(self.address, failure)

    def _negotiate(self, deadline: int) -> None:
        """ApiVersions in our highest version; a broker too old for it answers in v0 with what it knows."""
        version = API[API_VERSIONS].advertised_max
        request = ApiVersionsRequest(client_software_name="headrace", client_software_version="0.1")
        pending = self._send(request, API_VERSIONS, version, deadline)
        while pending.frame is None:
            self._read(deadline, what="ApiVersions")
        response = self._read_versions(pending.frame, version)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            theirs = {each.api_key: each.max_version for each in response.api_keys}
            version = min(version, theirs.get(API_VERSIONS, 0))
            pending = self._send(request, API_VERSIONS, version, deadline)
            while pending.frame is None:
                self._read(deadline, what="ApiVersions")
            response = self._read_versions(pending.frame, version)
        if response.error_code:
            raise RefusedError(response.error_code, f"the broker at {self.address} refused the connection")
        self.versions = VersionTable(self.address, response.api_keys)

    def _read_versions(self, frame: bytes, version: int) -> ApiVersionsResponse:
        try:
            if int.from_bytes(frame[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION:
                return read_response(ApiVersionsResponse, 0, frame)
            return read_response(ApiVersionsResponse, version, frame)
        except InvalidBytesError as error:
            raise UnreachableError(
                f"what answers at {self.address} is not a Kafka broker ({error})"
            ) from error

    def _send(self, request: Any, api_key: int, version: int, deadline: int) -> Pending:
        pending = Pending(self._next_id, api_key, version)
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        chunks = request_frame(request, version, pending.correlation_id, self._client_id)
        self._pending[pending.correlation_id] = pending
        unsent = memoryview(b"".join(bytes(c.read() if isinstance(c, FileSlice) else c) for c in chunks))
        while unsent:
            try:
                unsent = unsent[self._socket.send([unsent]) :]
            except BlockingIOError:
                self._wait_writable(deadline)
            except OSError as error:
                raise _lost(self.address, error) from error
        return pending

    def _wait_writable(self, deadline: int) -> None:
        left = deadline - self._world.clock.monotonic_ms()
        if not self._world.waiter.writable(self.fileno(), left):
            raise TimedOutError(f"the broker at {self.address} does not take what it is sent")

    def _read(self, deadline: int, *, what: str, must_come: bool = True) -> None:
        """Wait for bytes, read them, and sort whole frames to who waits for them."""
        left = deadline - self._world.clock.monotonic_ms()
        if not self._world.waiter.readable((self.fileno(),), left):
            if must_come:
                raise TimedOutError(f"the broker at {self.address} did not answer {what} in time")
            return
        try:
            count = self._socket.recv_into(self._scratch)
        except BlockingIOError:
            return
        except OSError as error:
            raise _lost(self.address, error) from error
        if count == 0:
            raise _lost(self.address, None)
        self._received += memoryview(self._scratch)[:count]
        self._sort_frames()

    def _sort_frames(self) -> None:
        at = 0
        while len(self._received) - at >= 4:
            size = int.from_bytes(self._received[at : at + 4], "big")
            if size > FRAME_BYTES_MAX:
                raise UnreachableError(f"what answers at {self.address} is not a Kafka broker")
            if len(self._received) - at - 4 < size:
                break
            frame = bytes(memoryview(self._received)[at + 4 : at + 4 + size])
            at += 4 + size
            waiting = self._pending.pop(response_correlation_id(frame), None)
            if waiting is not None:
                waiting.frame = frame
        del self._received[:at]

    def _decode(self, pending: Pending) -> Any:
        assert pending.frame is not None, "only an answer can be decoded"
        api = API[pending.api_key]
        try:
            return read_response(api.response, pending.version, pending.frame)
        except InvalidBytesError as error:
            what = f"the broker at {self.address} answered {api.name} v{pending.version} with bad bytes"
            raise UnreachableError(f"{what}: {error}") from error


def _unreachable(address: str, error: OSError | None) -> UnreachableError:
    reason = error.strerror if error and error.strerror else str(error)
    # The resolver's own errors have negative numbers.
    unknown_name = error is not None and (error.errno or 0) < 0
    advice = "is a broker running there? `headrace start` starts one"
    if unknown_name:
        advice = "is the host's name right?"
    return UnreachableError(f"cannot connect to {address} ({reason}): {advice}")


def _lost(address: str, error: OSError | None) -> UnreachableError:
    reason = f" ({error.strerror or error})" if error else ""
    if isinstance(error, ConnectionRefusedError):
        return _unreachable(address, error)
    return UnreachableError(f"the broker at {address} closed the connection{reason}")
