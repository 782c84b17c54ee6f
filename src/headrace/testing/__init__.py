"""The deterministic world in which the real node runs: time, network, disk and chance under one seed."""
