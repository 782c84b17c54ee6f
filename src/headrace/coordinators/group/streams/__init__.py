"""Streams groups (KIP-1071): members that run the tasks of a topology, which the broker hands out."""
