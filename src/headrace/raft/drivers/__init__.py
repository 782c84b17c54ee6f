"""What gives the quorum's core time, messages and durable bytes."""
