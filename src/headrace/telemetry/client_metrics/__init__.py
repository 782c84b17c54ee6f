"""Metrics that clients push (KIP-714): their form on the wire, and what a broker keeps of them to show."""
