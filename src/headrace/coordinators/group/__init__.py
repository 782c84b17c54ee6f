"""Consumer groups: who belongs to a group, who owns which partition, and how far each group has read."""
