"""Kafka's configuration by Kafka's names: what can be set, its default, and what a value means. No IO."""
