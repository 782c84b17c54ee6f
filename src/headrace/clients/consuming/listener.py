"""What a user hears about partitions that come and go."""

from collections.abc import Iterable

from headrace.base.ids import TopicPartition


class RebalanceListener:
    """Override what is of interest. Called inside `poll` and `close`; the consumer may be used in it.

    Methods may be coroutines for an `AsyncConsumer`.
    """

    def on_assigned(self, partitions: list[TopicPartition]) -> object:
        """These are read from now on; a seek decides from where."""
        return None

    def on_revoked(self, partitions: list[TopicPartition]) -> object:
        """These are given up next; a commit still counts."""
        return None

    def on_lost(self, partitions: list[TopicPartition]) -> object:
        """These are somebody else's already; nothing can be committed for them."""
        return self.on_revoked(partitions)


def in_order(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return sorted(partitions)
