"""What the remote log decides with no event loop: its state machine, and whose the copies are."""
