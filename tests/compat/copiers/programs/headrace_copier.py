"""Our own clients as a copier: `Processor`, which is made for it."""

from collections.abc import Iterable

from headrace.clients import ConsumerRecord, Output, Processor
from tests.compat.copiers.programs.settings import settings


def main() -> None:
    given = settings()

    def copy(record: ConsumerRecord) -> Iterable[Output]:
        yield Output(given.target, record.value, partition=record.partition)

    names = {
        "bootstrap.servers": given.bootstrap,
        "group.id": given.group,
        "transactional.id": given.transactional_id,
        "transaction.timeout.ms": given.transaction_ms,
        "session.timeout.ms": given.session_ms,
        "heartbeat.interval.ms": given.heartbeat_ms,
    }
    with Processor(names, [given.source], copy, max_records=given.size) as processor:
        processor.run()


if __name__ == "__main__":
    main()
