"""The consumer: fetches ahead of the caller, keeps its positions, and shares partitions with its group."""
