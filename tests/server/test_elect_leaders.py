"""ElectLeaders through its handler."""

from pathlib import Path

from headrace.base.error_codes import ErrorCode
from headrace.wire.schemas.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.server.desk import Desk, at_desk


def test_where_all_is_well_no_election_is_needed(tmp_path: Path) -> None:
    async def script(desk: Desk) -> None:
        await desk.create("a")
        asked = [TopicPartitions("a", [0, 9])]
        for version in range(3):
            response = await desk.ask(ElectLeadersRequest(topic_partitions=asked), version)
            (result,) = response.replica_election_results
            assert [p.error_code for p in result.partition_result] == [
                ErrorCode.ELECTION_NOT_NEEDED,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ]
        everything = await desk.ask(ElectLeadersRequest(topic_partitions=None), 2)
        assert [len(r.partition_result) for r in everything.replica_election_results] == [0]
        strange = await desk.ask(ElectLeadersRequest(9, asked), 2)
        assert strange.error_code == ErrorCode.INVALID_REQUEST
        results = strange.replica_election_results
        assert {p.error_code for r in results for p in r.partition_result} <= {ErrorCode.INVALID_REQUEST}

    at_desk(tmp_path, script)
