"""Kafka clients that others wrote, behind one face, so that a scenario is written once and run with each."""
