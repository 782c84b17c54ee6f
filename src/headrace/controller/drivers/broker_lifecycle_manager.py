"""The broker's half of its life in the cluster: registered, unfenced, kept alive by heartbeats, shut down
in order.

The controller may be in the same process or on another node. A broker is registered when its logs are open,
unfenced when it has replayed its own registration, and handed over before it stops: its leaders move away,
or, where it is alone, its partitions note that it left them whole. Only then may its clean shutdown be
written down, with `epoch` as the proof.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.base.clock import Clock
from headrace.base.error_codes import ErrorCode
from headrace.base.errors import ApiError
from headrace.controller.drivers.controller import Controller
from headrace.metadata.brokers import Endpoint
from headrace.metadata.features import SUPPORTED
from headrace.settings.broker_config import BrokerConfig
from headrace.telemetry.outage import Outage
from headrace.wire.schemas import controller_registration
from headrace.wire.schemas.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.schemas.broker_registration import BrokerRegistrationRequest, Feature, Listener

logger = logging.getLogger(__name__)

UNKNOWN_EPOCH: Final = -1
SHUTDOWN_POLL_S: Final = 0.02
"""How often a broker that hands over asks whether it may go."""

HAND_OVER_MS: Final = 3_000
"""How long a broker that wants to go waits for a controller that does not answer."""

LOOK_AROUND_S: Final = 0.1
"""How soon it looks whether there can be one at all: nodes are often stopped together."""

UNFENCE_POLL_S: Final = 0.02
"""How often a broker that waits to be let in tells how far it has got."""

REGISTER_AGAIN_S: Final = 0.1
LATER: Final = frozenset(
    {
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        ErrorCode.KAFKA_STORAGE_ERROR,  # the controller's disk is full
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""What another attempt to register, as broker or controller, or to be let in, may find otherwise."""


class NobodyLeftError(Exception):
    """A majority of the quorum has ended: nothing can be decided any more."""


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """Who registers: `incarnation_id` is new for every process, `previous_epoch` is the proof of a clean
    shutdown.
    """

    node_id: int
    cluster_id: str
    incarnation_id: bytes
    directories: tuple[bytes, ...]
    rack: str | None = None
    previous_epoch: int = UNKNOWN_EPOCH


class BrokerLifecycleManager:
    """One broker. `replayed_to` tells the last offset of the metadata log that its image has."""

    def __init__(
        self,
        controller: Controller,
        identity: BrokerIdentity,
        config: BrokerConfig,
        *,
        replayed_to: Callable[[], int],
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        cordoned_directories: Callable[[], list[bytes]] = list,
    ) -> None:
        self._controller = controller
        self._identity = identity
        self._interval_ms = config.int("broker.heartbeat.interval.ms")
        self._patience_ms = config.int("initial.broker.registration.timeout.ms")
        self._replayed_to = replayed_to
        self._loop = loop
        self._clock = clock
        self._cordoned_directories = cordoned_directories
        self._told_cordoned: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None
        self._failed_directories: list[bytes] = []
        self._outage = Outage(loop.time, logger, "the active controller")
        self.epoch = UNKNOWN_EPOCH
        self.fenced = True
        self.unregistered = False
        self.refusal: str | None = None
        """Why the controller has not taken the broker in so far, for a person."""

    async def register(self, listeners: Sequence[Endpoint]) -> int:
        """Make the broker known, fenced; returns its epoch. A process before this one may still count as
        alive, and a controller may have to be elected first: both are waited for."""
        identity = self._identity
        deadline_ms = self._clock.monotonic_ms() + self._patience_ms
        request = BrokerRegistrationRequest(
            broker_id=identity.node_id,
            cluster_id=identity.cluster_id,
            incarnation_id=identity.incarnation_id,
            listeners=[
                Listener(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in listeners
            ],
            features=[
                Feature(name=name, min_supported_version=levels.min, max_supported_version=levels.max)
                for name, levels in SUPPORTED.items()
            ],
            rack=identity.rack,
            log_dirs=[each for each in identity.directories if each not in self._failed_directories],
            previous_broker_epoch=identity.previous_epoch,
        )
        while True:
            try:
                response = await self._controller.ask(request)
            except ApiError as error:
                if error.code not in LATER or self._clock.monotonic_ms() >= deadline_ms:
                    raise ApiError(error.code, self._explained(error)) from error
                self.refusal = self._explained(error)
                logger.info("the broker is not registered yet: %s", error)
                await asyncio.sleep(REGISTER_AGAIN_S)
            else:
                self.epoch = response.broker_epoch
                logger.info("the broker is registered in epoch %d", self.epoch)
                return self.epoch

    def _explained(self, error: ApiError) -> str:
        """The controller answers with a code and no words."""
        if error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return f"a broker with node.id {self._identity.node_id} is registered, and runs or did until now"
        if error.code is ErrorCode.INCONSISTENT_CLUSTER_ID:
            return (
                f"the controllers are not of cluster {self._identity.cluster_id}, as the log directories are"
            )
        return str(error)

    async def unfence(self) -> None:
        """Begin to serve, and keep the session alive from now on."""
        while self.fenced:
            try:
                self.fenced = (await self._heartbeat()).is_fenced
            except ApiError as error:
                if error.code not in LATER:
                    raise
                logger.info("the broker is not let in yet: %s", error)
            if self.fenced:
                await asyncio.sleep(UNFENCE_POLL_S)
        logger.info("the broker is unfenced: it may lead")
        self._beat_later()

    async def shut_down(self) -> None:
        """Hand over, as the controller allows. A controller that is gone does not hold a broker back."""
        self._rest()
        if self.epoch == UNKNOWN_EPOCH or self.unregistered:
            return
        began_ms = self._clock.monotonic_ms()
        try:
            while not (await self._last_heartbeat()).should_shut_down:
                await asyncio.sleep(SHUTDOWN_POLL_S)
            logger.info("the broker has handed over after %d ms", self._clock.monotonic_ms() - began_ms)
        except NobodyLeftError:
            logger.info("the broker stops without handing over: nobody is left to hand over to")
        except (ApiError, TimeoutError) as error:
            logger.warning("the broker stops without handing over: %s", error)
        self.fenced = True

    async def _last_heartbeat(self) -> BrokerHeartbeatResponse:
        """TimeoutError where no controller answers, NobodyLeftError where there can be none."""
        asked = self._heartbeat(want_shut_down=True)
        deadline_ms = self._clock.monotonic_ms() + HAND_OVER_MS
        while not (await asyncio.wait([asked], timeout=LOOK_AROUND_S))[0]:
            out_of_reach = await self._controller.is_out_of_reach()
            if asked.done():
                break
            if out_of_reach or self._clock.monotonic_ms() >= deadline_ms:
                asked.cancel()
                raise NobodyLeftError if out_of_reach else TimeoutError("no controller answers")
        return asked.result()

    def report_failed_directory(self, directory_id: bytes) -> None:
        """A log directory went offline: its replicas must not lead or count as in sync any more."""
        self._failed_directories.append(directory_id)
        self._beat_now()

    def follow_settings(self) -> None:
        """Settings changed: the controller hears at once which directories take no new replicas now."""
        if self._cordoned_directories() != self._told_cordoned:
            self._beat_now()

    def _beat_now(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._beat()

    def _heartbeat(self, *, want_shut_down: bool = False) -> "asyncio.Future[BrokerHeartbeatResponse]":
        self._told_cordoned = self._cordoned_directories()
        return self._controller.ask(
            BrokerHeartbeatRequest(
                broker_id=self._identity.node_id,
                broker_epoch=self.epoch,
                current_metadata_offset=self._replayed_to(),
                want_shut_down=want_shut_down,
                offline_log_dirs=list(self._failed_directories),
                cordoned_log_dirs=self._told_cordoned,
            )
        )

    def _beat_later(self) -> None:
        self._timer = self._loop.call_later(self._interval_ms / 1000, self._beat)

    def _beat(self) -> None:
        self._beat_later()
        try:
            self._heartbeat().add_done_callback(self._heard)
        except ApiError as error:
            self._unheard(error)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _heard(self, done: "asyncio.Future[BrokerHeartbeatResponse]") -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self._unheard(error)
        elif not done.cancelled():
            self._outage.over()
            if done.result().is_fenced and not self.fenced:
                logger.warning("the controller has fenced this broker, which it did not hear of for too long")
            elif self.fenced and not done.result().is_fenced:
                logger.info("the broker is unfenced again")
            self.fenced = done.result().is_fenced

    def _unheard(self, error: BaseException) -> None:
        """A heartbeat failed. Where its epoch is not known any more, the broker was unregistered, or another
        process has its id: it stays away until it is started again, as on Kafka, since whoever unregistered
        it meant it. It goes on telling so now and then."""
        if (
            isinstance(error, ApiError)
            and error.code is ErrorCode.STALE_BROKER_EPOCH
            and not self.unregistered
        ):
            self.unregistered = self.fenced = True
            logger.error(
                "broker %d was unregistered, or another process has its id: it leads and follows nothing any "
                "more. Stop this node, or start it again to have it registered.",
                self._identity.node_id,
            )
        else:
            self._outage.failed(error)


def controller_registration_request(
    *, node_id: int, incarnation_id: bytes, listeners: Sequence[Endpoint]
) -> controller_registration.ControllerRegistrationRequest:
    """What a controller tells the quorum's leader of itself when it starts."""
    return controller_registration.ControllerRegistrationRequest(
        controller_id=node_id,
        incarnation_id=incarnation_id,
        listeners=[
            controller_registration.Listener(
                name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
            )
            for e in listeners
        ],
        features=[
            controller_registration.Feature(
                name=name, min_supported_version=levels.min, max_supported_version=levels.max
            )
            for name, levels in SUPPORTED.items()
        ],
    )
