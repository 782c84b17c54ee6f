"""How long clients may be kept waiting for the answer to a heartbeat, by the name they give (KIP-511).

Those take it well who send the next heartbeat by the time of the last one, and have nothing wait for the
answer. Not so kafkajs, which reads no records until the heartbeat is answered, sarama, which ends no session
before it is, and franz-go, which counts its interval from the answer; kafkajs, kafka-go and aiokafka give no
name.
"""

from typing import Final

from headrace.coordinators.group.held_heartbeats import Patience
from headrace.server.context import Peer

# librdkafka's bindings have names of their own: confluent-kafka-python, confluent-kafka-go, rust-rdkafka...
LIBRDKAFKA: Final = ("rdkafka", "confluent-kafka-")

# In classic groups stock clients send a heartbeat every 3 s by default. librdkafka leaves one out while
# another is unanswered: that has its answer a little before. The Java client and librdkafka repeat, after
# their back-off of 0.1 s, one that was answered by COORDINATOR_LOAD_IN_PROGRESS.
HOLD_MS: Final = 2_800
PATIENCE: Final = {
    "apache-kafka-java": Patience(HOLD_MS, comes_again=True),
    "headrace": Patience(HOLD_MS, comes_again=True),
    "kafka-python": Patience(HOLD_MS, comes_again=False),
}
LIBRDKAFKAS_PATIENCE: Final = Patience(HOLD_MS, comes_again=True, starts_anew=False)

# In consumer groups (KIP-848): how long before its next heartbeat a client needs the answer. The Java client
# has nothing else to do from then on than to look whether it is there. librdkafka gives up on the connection
# at that very time: there has to be room for the network, and for a node that is busy.
MARGIN_MS: Final = {"apache-kafka-java": 50, "headrace": 50}
LIBRDKAFKAS_MARGIN_MS: Final = 150


def patience_of(peer: Peer) -> Patience | None:
    """For heartbeats of classic groups; None where the answer leaves at once."""
    return LIBRDKAFKAS_PATIENCE if _is_librdkafka(peer) else PATIENCE.get(peer.software_name)


def margin_ms_of(peer: Peer) -> int | None:
    """For heartbeats of consumer groups; None where the answer leaves at once."""
    return LIBRDKAFKAS_MARGIN_MS if _is_librdkafka(peer) else MARGIN_MS.get(peer.software_name)


def _is_librdkafka(peer: Peer) -> bool:
    name, version = peer.software_name, peer.software_version
    return "librdkafka" in version or any(part in name for part in LIBRDKAFKA)
