"""What a broker's file says of `__remote_log_metadata`: `rlmm.config.remote.log.metadata.topic.NAME`.

In Kafka these are settings of a plugin, so they are known by a prefix, which can be another. They are read
when the topic is made, which may be long after the start: so they are checked at the start.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.settings.definition import Setting, SettingError, parse
from headrace.settings.table import read_table

if TYPE_CHECKING:
    from headrace.settings.broker_config import BrokerConfig

REMOTE_LOG_TOPIC_SETTINGS: Final[dict[str, Setting]] = read_table("""
min.isr  short null  1..
    Replicas that must have a record before it counts; 2 where there are three replicas, else 1.
num.partitions  int 50  1..
    Partitions, which stay as many as they are.
replication.factor  short null  1..
    Replicas; three, or one on each broker where there are fewer.
retention.ms  long -1  -1|1..
    Milliseconds that a record is kept, which must be longer than any tiered topic is; -1 is for ever.
""")


def remote_log_topic_setting(config: "BrokerConfig", name: str) -> int | None:
    """The value; None where the default depends on the cluster. SettingError where it is wrong."""
    setting = REMOTE_LOG_TOPIC_SETTINGS[name]
    full_name = _prefix(config) + name
    text = config.static.get(full_name)
    value = setting.default_value if text is None else parse(replace(setting, name=full_name), text)
    assert value is None or isinstance(value, int), "all of them are numbers"
    return value


def check_remote_log_topic(config: "BrokerConfig") -> None:
    """SettingError for what would keep the topic from being made, or from being written to."""
    values = {name: remote_log_topic_setting(config, name) for name in REMOTE_LOG_TOPIC_SETTINGS}
    least, replicas = values["min.isr"], values["replication.factor"]
    if least is not None and replicas is not None and least > replicas:
        raise SettingError(
            f"{_prefix(config)}min.isr", f"{least} must not be above replication.factor, {replicas}"
        )


def _prefix(config: "BrokerConfig") -> str:
    return config.str("remote.log.metadata.manager.impl.prefix") + "remote.log.metadata.topic."
