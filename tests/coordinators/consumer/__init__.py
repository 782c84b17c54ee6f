"""Consumer groups (KIP-848): the pure machine."""
