"""headrace: a Kafka-compatible streaming log in Python."""

__version__ = "0.1.0"
