"""The face of a controller: a request in, a future of its reply out.

The controller of this node (`driver.QuorumController`) and the active one, wherever it is (`active.py`), have
the same face. A request that cannot be decided raises ApiError, at once or in its future; replies that carry
an error of their own for each topic or partition come as they are.
"""

from abc import ABC, abstractmethod
from asyncio import Future
from typing import Any

from headrace.controller.controller_result import PartitionChangeQuota, no_quota


class Controller(ABC):
    """A controller of the cluster, as brokers and clients' requests see it."""

    @abstractmethod
    def ask(
        self, request: Any, *, api_version: int | None = None, quota: PartitionChangeQuota = no_quota
    ) -> "Future[Any]":
        """The reply to a request of any kind; `api_version` where its meaning depends on that. The `quota` is
        asked by a controller in this process; another one has its own.
        """

    async def is_out_of_reach(self) -> bool:
        """Whether there can be no controller: the processes of a majority of the quorum have ended."""
        return False

    def on_behalf_of(self, principal: str, host: str, client_id: str | None = None) -> "Controller":
        """The same controller, for requests of a client: whoever forwards them says whose they are."""
        return self
