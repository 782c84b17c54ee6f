"""confluent-kafka as a member, with either protocol."""

from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Place

from tests.compat.mixed_groups.members.telling import Telling, now_ms, settings


def main() -> None:
    given = settings()
    telling = Telling()
    config: dict[str, Any] = {
        "bootstrap.servers": given.bootstrap,
        "group.id": given.group,
        "client.id": given.client_id,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 200,
        "max.poll.interval.ms": given.poll_interval_ms,
        "log_level": 2,
    }
    if given.more.get("group.protocol") != "consumer":
        config |= {"heartbeat.interval.ms": given.heartbeat_ms, "session.timeout.ms": given.session_ms}
    consumer = Consumer(config | given.more)

    def commit() -> None:
        offsets = dict(telling.uncommitted)
        if not offsets:
            return
        began = now_ms()
        places = [Place(given.topic, partition, offset) for partition, offset in offsets.items()]
        try:
            taken = consumer.commit(offsets=places, asynchronous=False)
            for place in taken:
                if place.error is not None:
                    raise KafkaException(place.error)
            telling.committed(began, offsets)
        except KafkaException as error:
            telling.refused(error)

    def on_assign(_: Consumer, places: list[Place]) -> None:
        telling.assigned(place.partition for place in places)

    def on_revoke(_: Consumer, places: list[Place]) -> None:
        commit()
        telling.revoked(place.partition for place in places)

    def on_lost(_: Consumer, places: list[Place]) -> None:
        telling.revoked((place.partition for place in places), "lost")

    consumer.subscribe([given.topic], on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost)
    while not telling.is_asked_to_leave.is_set():
        messages = consumer.consume(500, 0.1)
        telling.records(
            (each.partition(), each.offset(), each.value()) for each in messages if not each.error()
        )
        for each in messages:
            if each.error() is not None and each.error().fatal():
                telling.tell("failed", why=str(each.error()))
                return
        commit()
    consumer.close()
    telling.tell("closed")


if __name__ == "__main__":
    main()
