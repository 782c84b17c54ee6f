"""BrokerRegistration (62), v0-v4: a broker joins the cluster, fenced, and is given its epoch (KIP-631).

DUPLICATE_BROKER_REGISTRATION while another process with its id lives. v2 names its directories (KIP-858), v3
the epoch of its last clean shutdown (KIP-966).
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.server.own_controller import own_controller
from headrace.wire.schemas.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


def handle(context: RequestContext, request: BrokerRegistrationRequest) -> Future[BrokerRegistrationResponse]:
    return own_controller(context).register_broker(request)
