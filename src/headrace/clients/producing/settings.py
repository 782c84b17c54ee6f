"""A producer's settings, checked against each other."""

from collections.abc import Mapping
from typing import Any

from headrace.clients.configuration import ClientConfig
from headrace.clients.setting_tables import PRODUCER
from headrace.records.codecs import Codec
from headrace.settings.definition import SettingError


def producer_config(settings: Mapping[str, Any] | None, **more: Any) -> ClientConfig:
    """Checked settings, with what follows from idempotence (KIP-679)."""
    config = ClientConfig(PRODUCER, settings, **more)
    is_transactional = config.get("transactional.id") is not None
    if is_transactional and not config.bool("enable.idempotence"):
        raise SettingError("transactional.id", "transactions need enable.idempotence=true")
    if config.bool("transaction.two.phase.commit.enable") and config.was_given("transaction.timeout.ms"):
        message = "transactions of two-phase commit never time out: do not set it"
        raise SettingError("transaction.timeout.ms", message)
    breaks = {
        "acks": config.str("acks") not in ("all", "-1"),
        "max.in.flight.requests.per.connection": config.int("max.in.flight.requests.per.connection") > 5,
        "retries": config.int("retries") == 0,
    }
    for name, is_broken in breaks.items():
        if is_broken and config.bool("enable.idempotence"):
            if is_transactional or config.was_given("enable.idempotence"):
                why = "transactional.id" if is_transactional else "enable.idempotence=true"
                raise SettingError(name, f"{config.get(name)!r} does not go with {why}")
            config.replace("enable.idempotence", False)
    least = config.int("linger.ms") + config.int("request.timeout.ms")
    if config.int("delivery.timeout.ms") < least:
        if config.was_given("delivery.timeout.ms"):
            message = f"it must be at least linger.ms + request.timeout.ms, {least}"
            raise SettingError("delivery.timeout.ms", message)
        config.replace("delivery.timeout.ms", least)
    return config


def compression_level(config: ClientConfig, codec: Codec) -> int | None:
    """The level that was asked for; None is the codec's own."""
    name = f"compression.{codec.name.lower()}.level"
    if codec not in (Codec.GZIP, Codec.LZ4, Codec.ZSTD) or not config.was_given(name):
        return None
    return config.int(name)
