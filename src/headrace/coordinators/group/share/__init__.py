"""Share groups (KIP-932): members, what they are to read, and which share partitions have state."""
