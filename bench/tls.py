"""python -m bench.tls [--quick] [--rounds N] [--brokers NAME...]: TLS 1.3 beside Apache Kafka.

Writing and reading as `python -m bench` does it, how many handshakes a second a broker has to give (each a
connection of its own, one after the other on four threads), and latency at a light rate. Keys are P-256.
"""

import argparse
import socket
import ssl
import statistics
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bench import loads
from bench.brokers import Broker, Headrace, Kafka, missing
from headrace.node.certificate_folder import CertificateFolder

START_S = 60
SIZES = {"1 KB": 1000, "100 B": 100}
HANDSHAKES = 1000
THREADS = 4
LISTENER = {
    "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",  # the listener is called so
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
}


class _Secure(Broker):
    """A broker whose clients talk TLS."""

    def __init__(self) -> None:
        self.settings = dict(Broker.settings)  # type: ignore[misc]
        super().__init__()

    def prepare(self) -> None:
        files = CertificateFolder(self.folder / "certs")
        node = files.issue("node", ["127.0.0.1"])
        stores = {"ssl.keystore.location": str(node), "ssl.truststore.location": str(files.ca_file)}
        self.settings |= LISTENER | stores
        self.client = {"security.protocol": "SSL", "ssl.ca.location": str(files.ca_file)}
        super().prepare()

    def wait_until_serving(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            try:
                AdminClient({"bootstrap.servers": self.address, "log_level": 0, **self.client}).list_topics(
                    timeout=1
                )
                return
            except KafkaException:
                continue
        raise TimeoutError(f"{self.name} does not serve at {self.address}: see {self.folder}/broker.log")


class SecureHeadrace(_Secure, Headrace):
    """headrace, with TLS."""


class SecureKafka(_Secure, Kafka):
    """Apache Kafka, with TLS."""


def handshakes(broker: Broker, count: int) -> loads.Figures:
    context = ssl.create_default_context(cafile=broker.client["ssl.ca.location"])

    def one(_: int) -> None:
        with (
            socket.create_connection(("127.0.0.1", broker.port)) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1"),
        ):
            pass

    before, began = broker.cpu_s(), time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(one, range(count)))
    elapsed, cpu_s = time.monotonic() - began, broker.cpu_s() - before
    return {"handshakes_s": count / elapsed, "cpu_us": cpu_s / count * 1e6}


def measure(broker: Broker, scale: float) -> dict[str, loads.Figures]:
    figures = {}
    for size_name, size in SIZES.items():
        count = int((1e9 if size == 1000 else 3e8) * scale / size)
        for topic in (f"warm-{size}", f"load-{size}"):  # the first lets a JVM compile
            loads.create(broker, topic)
            figures[f"produce {size_name}"] = loads.produce(broker, topic, size=size, count=count, acks=1)
            figures[f"consume {size_name}"] = loads.consume(broker, topic, size=size, count=count)
            loads.delete(broker, topic)
    handshakes(broker, int(HANDSHAKES * scale))
    figures["handshakes"] = handshakes(broker, int(HANDSHAKES * scale))
    loads.create(broker, "latency")
    figures["latency at 1000 msg/s"] = loads.latency(broker, "latency", rate=1000, seconds=10 * scale)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tls", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the load, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--brokers", nargs="+", choices=("headrace", "kafka"), default=("headrace", "kafka"))
    options = parser.parse_args()
    if lacking := missing():
        print("bench: cannot run:", *lacking, sep="\n  ", file=sys.stderr)
        return 2
    kinds = [kind for kind in (SecureHeadrace, SecureKafka) if kind.name in options.brokers]
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(1 if options.quick else options.rounds):
        for kind in kinds:
            with kind() as broker:
                for step, figures in measure(broker, 0.1 if options.quick else 1.0).items():
                    for name, value in figures.items():
                        found[f"{step} | {name}"][kind.name].append(value)
    for step, by_broker in found.items():
        medians = {name: statistics.median(values) for name, values in by_broker.items()}
        ratio = f"  ratio {medians['headrace'] / medians['kafka']:.2f}" if len(medians) == 2 else ""
        shown = "  ".join(f"{name} {value:12,.2f}" for name, value in medians.items())
        print(f"{step:42} {shown}{ratio}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
