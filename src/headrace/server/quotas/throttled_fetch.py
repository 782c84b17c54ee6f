"""A consumer's Fetch where fetched bytes have quotas.

What it reads is measured when its reply is ready. Above the quota the reply is empty and says for how long to
wait; what was read is not counted, and the session stays as it was: the consumer asks for the same again. No
Fetch asks for more than a quota gives in all windows, because that could never be answered.
"""

from __future__ import annotations

from headrace.server.context import RequestContext
from headrace.server.delayed_fetch import DelayedFetch
from headrace.server.fetch_sessions import Answer, FetchContext
from headrace.server.quotas.throttled_channels import QuotaType
from headrace.wire.schemas.fetch import FetchRequest, FetchResponse


class ThrottledFetch(DelayedFetch):
    """One consumer's Fetch, measured."""

    __slots__ = ()

    def __init__(self, context: RequestContext, request: FetchRequest, fetch: FetchContext) -> None:
        super().__init__(context, request, fetch)
        quotas = context.parts.quotas
        sensor = quotas.fetch.sensor_of(context.peer.principal, context.client_id)
        if sensor is not None:
            windows = quotas.fetch.windows
            at_most = int(sensor.limit * (windows.samples - 1) * windows.size_ms / 1000)
            self.bytes_max = min(self.bytes_max, at_most)
            self.bytes_min = min(self.bytes_min, self.bytes_max)

    def finish(self, answers: list[Answer]) -> FetchResponse:
        context = self.context
        quotas = context.parts.quotas
        sensor = quotas.fetch.sensor_of(context.peer.principal, context.client_id)
        if sensor is not None and self.bytes_read:
            now_ms = context.parts.clock.monotonic_ms()
            throttle_ms = sensor.record(self.bytes_read, now_ms)
            if throttle_ms > 0:
                sensor.take_back(self.bytes_read, now_ms)
                quotas.channels.throttle(context.peer, throttle_ms, QuotaType.FETCH)
                return self.fetch.throttled(throttle_ms)
        return super().finish(answers)
