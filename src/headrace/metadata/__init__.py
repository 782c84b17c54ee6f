"""The cluster's picture: built only by replaying the metadata log, and written back as a snapshot of it."""
