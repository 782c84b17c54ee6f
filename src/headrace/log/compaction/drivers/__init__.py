"""What gives compaction its turns: the loop, worker threads and timers."""
