"""Local log compaction: the log cleaner and what it is made of.

`drivers.log_cleaner` starts the rounds, `drivers.log_cleaner_manager` says which log is next, `cleaner` runs
one round over one log.
"""
