"""All settings of a broker, by name."""

from typing import Final

from headrace.settings.broker_group import BROKER_GROUP
from headrace.settings.broker_log import BROKER_LOG
from headrace.settings.broker_network import BROKER_NETWORK
from headrace.settings.broker_node import BROKER_NODE
from headrace.settings.broker_other import BROKER_OTHER
from headrace.settings.broker_replication import BROKER_REPLICATION
from headrace.settings.broker_sasl import BROKER_SASL
from headrace.settings.broker_share import BROKER_SHARE
from headrace.settings.broker_tiered import BROKER_TIERED
from headrace.settings.broker_tls import BROKER_TLS
from headrace.settings.broker_transaction import BROKER_TRANSACTION
from headrace.settings.definition import Setting
from headrace.settings.not_yet import with_notes
from headrace.settings.table import joined

BROKER: Final[dict[str, Setting]] = with_notes(
    joined(
        BROKER_GROUP,
        BROKER_LOG,
        BROKER_NETWORK,
        BROKER_NODE,
        BROKER_OTHER,
        BROKER_REPLICATION,
        BROKER_SASL,
        BROKER_SHARE,
        BROKER_TIERED,
        BROKER_TLS,
        BROKER_TRANSACTION,
    )
)
