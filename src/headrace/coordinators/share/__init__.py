"""The share coordinator's state machine: how far each share partition of each share group is delivered."""
