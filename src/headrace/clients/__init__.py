"""Clients of any Kafka: requests, administration, a producer and a consumer that wait."""
