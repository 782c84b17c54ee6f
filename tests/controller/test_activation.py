"""What a controller writes when it becomes active."""

from headrace.controller.activation import default_bootstrap
from headrace.controller.core import ControllerCore
from headrace.metadata.features import BOOTSTRAP_LEVELS
from headrace.wire.schemas import metadata_records as wire
from tests.controller.building import CLUSTER_ID, apply, new_core
from tests.raft.building import node_config


def test_an_empty_log_gets_the_bootstrap_records_in_one_transaction_as_kafka_writes_them() -> None:
    core = ControllerCore(CLUSTER_ID, node_config("/nowhere"))
    decision = core.activate(default_bootstrap(), now_ms=0)
    assert [type(record).__name__ for record in decision.records] == [
        "BeginTransactionRecord",
        *["FeatureLevelRecord"] * len(BOOTSTRAP_LEVELS),
        "ConfigRecord",
        "EndTransactionRecord",
    ]
    assert decision.records[0].name == "Bootstrap records"
    apply(core, decision)
    assert core.image.features == BOOTSTRAP_LEVELS
    assert core.image.config_of(4, "") == {"min.insync.replicas": "1"}
    assert not core.activate(default_bootstrap(), now_ms=0).records, "the second time there is nothing to do"


def test_without_eligible_leaders_the_minimum_stays_a_matter_of_each_broker() -> None:
    core = ControllerCore(CLUSTER_ID, node_config("/nowhere"))
    apply(core, core.activate([wire.FeatureLevelRecord(name="metadata.version", feature_level=20)], now_ms=0))
    assert core.image.features == {"metadata.version": 20}
    assert core.image.configs == {}


def test_a_transaction_that_the_last_controller_left_open_is_aborted() -> None:
    core = new_core(1)
    core.replay([wire.BeginTransactionRecord(), wire.TopicRecord(name="half", topic_id=b"h" * 16)])
    apply(core, core.activate((), now_ms=0))
    assert not core.image.in_transaction
    assert core.image.topics_by_name == {}
