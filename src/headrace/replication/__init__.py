"""Replicas of partitions on this node: who leads, how far readers may read, and which log holds the bytes."""
