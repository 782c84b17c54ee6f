"""UpdateFeatures (57), v0-v2: raise or lower the levels of features that the whole cluster uses (KIP-584).

All updates of a request or none. v1 tells upgrades from safe and unsafe downgrades (KIP-778), v2 has one
error for all.
"""

from asyncio import Future

from headrace.server.context import RequestContext
from headrace.wire.schemas.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


def handle(context: RequestContext, request: UpdateFeaturesRequest) -> Future[UpdateFeaturesResponse]:
    return context.controller.update_features(request, api_version=context.api_version)
