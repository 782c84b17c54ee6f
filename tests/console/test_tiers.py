"""What the console shows of a topic's two tiers, on a tiered cluster: what `topic describe` tells."""

import json
from pathlib import Path

from click.testing import CliRunner

from headrace.cli.main import cli
from headrace.console.cluster_connection import ClusterSpec
from tests.console.visitors import Visitor, running_console
from tests.tiered.tiered_cluster import TOPIC, tiered_cluster, wait_for_tail, write

RECORDS = 400


def test_a_tiered_topic_tells_local_and_remote_bytes_and_what_waits(tmp_path: Path) -> None:
    with tiered_cluster(tmp_path / "store") as cluster:
        cluster.create_topic("tiered", configs=TOPIC)
        cluster.create_topic("plain")
        write(cluster, "tiered", RECORDS)
        wait_for_tail(cluster, "tiered", at_least=RECORDS - 150)
        spec = ClusterSpec("c", {"bootstrap.servers": cluster.bootstrap_servers})
        with running_console([spec]) as address:
            visitor = Visitor(address)
            assert visitor.get("topics/plain/tiers") == {"is_tiered": False, "partitions": []}
            told = visitor.get("topics/tiered/tiers")
            assert visitor.get("topics/tiered/tiers") == told, "what was read before is remembered"
            assert visitor.refused("GET", "topics/not-there/tiers")[0] == 404
        words = ["topic", "describe", "tiered", "--json", "-b", cluster.bootstrap_servers]
        described = json.loads(CliRunner().invoke(cli, words).output)
    assert told == {"is_tiered": True, "partitions": described[0]["tiers"]}
    [tiers] = told["partitions"]
    assert min(tiers["remote_bytes"], tiers["local_bytes"]) > 0
    assert tiers["copy_lag_bytes"] == 0
    assert 0 < tiers["local_start"] <= tiers["tiered_to"] < tiers["end"] == RECORDS
