"""How long clients wait when a node is killed: see `bench.failover.__main__`."""
