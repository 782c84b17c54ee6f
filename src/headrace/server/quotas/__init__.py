"""Client quotas: how much of a node its clients may use (Kafka's QuotaManagers).

Quotas stand in the metadata image (KIP-546). `client_quota_manager` finds the one that binds a client and
measures against it, `quota_managers` puts that around handlers, `throttled_fetch` is a consumer's Fetch that
is measured, and `throttled_channels` keeps connections waiting that are above their quota (KIP-219). Where
the image has no quota of a kind, nothing of it lies on the way of a request.
"""
