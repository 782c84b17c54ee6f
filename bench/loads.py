"""The loads, the same for both brokers: librdkafka's own benchmark, small requests over raw sockets,
latency.
"""

import re
import select
import socket
import struct
import subprocess
import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import RDKAFKA_PERFORMANCE, Broker
from bench.machine import read_frame, ready_memory
from headrace.records.batch import Record, build_batch

Figures = dict[str, float]

# The page cache of up to three nodes, and what is on its way there.
MEMORY_SHARE = 4
MEMORY_GB_MAX = 4


def create(broker: Broker, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address, **broker.client})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(60)


def delete(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address, **broker.client})
    admin.delete_topics([topic])[topic].result(60)


def produce(broker: Broker, topic: str, *, size: int, count: int, acks: int) -> Figures:
    """librdkafka's C benchmark, batches of 64 KiB, one partition."""
    options = {
        "batch.size": 65536,
        "linger.ms": 5,
        "batch.num.messages": 100_000,
        "queue.buffering.max.messages": 500_000,
    }
    flags = ["-P", "-t", topic, "-s", str(size), "-c", str(count), "-a", str(acks)]
    ready_memory(min(MEMORY_SHARE * size * count / 1e9, MEMORY_GB_MAX))
    return _measure(broker, size, flags, options)


def consume(broker: Broker, topic: str, *, size: int, count: int) -> Figures:
    flags = ["-C", "-t", topic, "-p", "0", "-c", str(count), "-o", "beginning", "-B", "10000"]
    return _measure(broker, size, flags, {"fetch.message.max.bytes": 1_048_576})


def _measure(broker: Broker, size: int, flags: list[str], options: dict[str, int]) -> Figures:
    given = {**options, **broker.client}
    settings = [part for name, value in given.items() for part in ("-X", f"{name}={value}")]
    command = [str(RDKAFKA_PERFORMANCE), *flags, "-b", broker.address, "-q", *settings]
    before = broker.cpu_s()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    cpu_s = broker.cpu_s() - before
    found = re.findall(r"(\d+) messages.*? in \d+ms: (\d+) msgs/s \D*([\d.]+) M[Bb]/s", done.stdout)
    if not found:
        raise RuntimeError(f"rdkafka_performance said nothing that could be read:\n{done.stdout[-2000:]}")
    messages, _, mb_s = found[-1]
    gigabytes = size * int(messages) / 1e9
    return {"mb_s": float(mb_s), "cpu_s_per_gb": cpu_s / gigabytes, "rss_mb": broker.rss_mb()}


def small_requests(
    broker: Broker, topic: str, *, in_flight: int, connections: int, seconds: float
) -> Figures:
    """One-record Produce requests, acks=1, as many as come back, on raw sockets with ready-made bytes."""
    frame = _produce_frame(topic)
    host, port = broker.address.split(":")
    sockets = [socket.create_connection((host, int(port))) for _ in range(connections)]
    for each in sockets:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        each.sendall(frame)
        reply_size = 4 + len(read_frame(each))
    before, began = broker.cpu_s(), time.monotonic()
    deadline = began + seconds
    unread = dict.fromkeys(sockets, 0)
    total = 0
    for each in sockets:
        each.sendall(frame * in_flight)
    while time.monotonic() < deadline:
        for each in select.select(sockets, [], [], 1)[0]:
            replies, unread[each] = divmod(unread[each] + len(each.recv(1 << 16)), reply_size)
            total += replies
            if replies:
                each.sendall(frame * replies)
    elapsed, cpu_s = time.monotonic() - began, broker.cpu_s() - before
    for each in sockets:
        each.close()
    return {"requests_s": total / elapsed, "cpu_us": cpu_s / total * 1e6}


def _produce_frame(topic: str) -> bytes:
    batch = bytes(build_batch([Record(0, int(time.time() * 1000), None, b"x" * 100, ())]))
    name = topic.encode()
    body = struct.pack(">hhi", -1, 1, 5000) + struct.pack(">ih", 1, len(name)) + name
    body += struct.pack(">iii", 1, 0, len(batch)) + batch
    payload = struct.pack(">hhih5s", 0, 7, 1, 5, b"bench") + body
    return struct.pack(">i", len(payload)) + payload


def latency(broker: Broker, topic: str, *, rate: int, seconds: float) -> Figures:
    """Produce to consume at a light rate, acks=all: an open loop, so that a stall shows in all it delays."""
    acked: list[float] = []
    arrived: list[float] = []
    stop = threading.Event()
    where = {"bootstrap.servers": broker.address, **broker.client}
    consumer = Consumer({**where, "group.id": "bench", "fetch.wait.max.ms": 500})
    end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]
    consumer.assign([TopicPartition(topic, 0, end)])

    def read() -> None:
        while not stop.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                arrived.append(time.perf_counter() - float(message.value()[:24]))

    producer = Producer({**where, "acks": "all", "linger.ms": 0})

    def note_acknowledged() -> None:
        # In a thread of its own: polled between two sends, a reply would wait for the next one to be due.
        while not stop.is_set():
            producer.poll(0.1)

    threads = [threading.Thread(target=read), threading.Thread(target=note_acknowledged)]
    for thread in threads:
        thread.start()
    producer.list_topics(topic, timeout=30)
    before, began = broker.cpu_s(), time.perf_counter()
    for number in range(int(rate * seconds)):
        due = began + number / rate
        while (now := time.perf_counter()) < due:
            time.sleep(due - now)
        sent = time.perf_counter()
        producer.produce(
            topic,
            f"{sent:<24.9f}".encode().ljust(100),
            partition=0,
            on_delivery=lambda error, message, sent=sent: acked.append(time.perf_counter() - sent),
        )
    producer.flush(30)
    cpu_s = broker.cpu_s() - before
    deadline = time.monotonic() + 10
    while len(arrived) < rate * seconds and time.monotonic() < deadline:
        time.sleep(0.01)
    stop.set()
    for thread in threads:
        thread.join()
    consumer.close()
    return {
        "ack_p50_ms": percentile(acked, 50),
        "ack_p99_ms": percentile(acked, 99),
        "end_to_end_p50_ms": percentile(arrived, 50),
        "end_to_end_p99_ms": percentile(arrived, 99),
        "cores": cpu_s / seconds,
    }


def percentile(values: list[float], percent: float) -> float:
    """In milliseconds."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] * 1000
