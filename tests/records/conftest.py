"""Property tests have no time limit per example: the machine may be busy."""

from hypothesis import settings

settings.register_profile("records", deadline=None)
settings.load_profile("records")
