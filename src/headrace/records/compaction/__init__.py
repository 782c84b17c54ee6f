"""What compaction does with bytes: finds each key's last offset, and writes the segment without the rest."""
