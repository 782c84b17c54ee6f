"""Streams groups (KIP-1071): the state machine."""
