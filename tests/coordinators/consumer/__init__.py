"""Consumer groups (KIP-848): the state machine."""
