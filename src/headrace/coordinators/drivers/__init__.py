"""Drivers of the coordinators: the runtime that they share, and groups and transactions on it."""
