"""What joins partitions and fetchers to the event loop: connections, timers, threads."""
