"""Coordinators: state machines that live in an internal topic. Decide, write, replay, answer."""
