# How many clicks every user has made so far, told at each click.
#
# in clicks: feed clicks
#   json: user STRING, page STRING
# out: feed clicks-per-user
#   key: user
#   mode: update

from collections.abc import Iterator

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle


class Clicks(StatefulProcessor):
    """One number a user, in the query's state."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "clicks LONG")

    def handleInputRows(self, key: tuple, rows: Iterator[Row], timers: object) -> Iterator[Row]:  # noqa: N802
        before = self._count.get()[0] if self._count.exists() else 0
        clicks = before + sum(1 for _ in rows)
        self._count.update((clicks,))
        yield Row(user=key[0], clicks=clicks)

    def close(self) -> None:
        pass


def query(clicks: DataFrame) -> DataFrame:
    return clicks.groupBy("user").transformWithState(
        Clicks(), outputStructType="user STRING, clicks LONG", outputMode="Update", timeMode="None"
    )
