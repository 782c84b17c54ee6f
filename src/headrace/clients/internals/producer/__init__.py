"""The producer: records are gathered into batches, and batches sent to the leaders of their partitions."""
