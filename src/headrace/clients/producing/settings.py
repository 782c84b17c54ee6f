"""A producer's settings, checked against each other."""

from collections.abc import Mapping
from typing import Any

from headrace.clients.configuration import ClientConfig
from headrace.clients.setting_tables import PRODUCER
from headrace.settings.definition import SettingError


def producer_config(settings: Mapping[str, Any] | None, **more: Any) -> ClientConfig:
    """Checked settings, with what follows from idempotence (KIP-679)."""
    config = ClientConfig(PRODUCER, settings, **more)
    breaks = {
        "acks": config.str("acks") not in ("all", "-1"),
        "max.in.flight.requests.per.connection": config.int("max.in.flight.requests.per.connection") > 5,
        "retries": config.int("retries") == 0,
    }
    for name, is_broken in breaks.items():
        if is_broken and config.bool("enable.idempotence"):
            if config.was_given("enable.idempotence"):
                raise SettingError(name, f"{config.get(name)!r} does not go with enable.idempotence=true")
            config.replace("enable.idempotence", False)
    least = config.int("linger.ms") + config.int("request.timeout.ms")
    if config.int("delivery.timeout.ms") < least:
        if config.was_given("delivery.timeout.ms"):
            message = f"it must be at least linger.ms + request.timeout.ms, {least}"
            raise SettingError("delivery.timeout.ms", message)
        config.replace("delivery.timeout.ms", least)
    return config
