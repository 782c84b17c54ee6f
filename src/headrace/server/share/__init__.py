"""The leader of share partitions (KIP-932): which records are handed out, to whom, and until when."""
