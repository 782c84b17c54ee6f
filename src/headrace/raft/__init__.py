"""The quorum that keeps the metadata log: a pure core that decides, a driver that writes, and snapshots."""
