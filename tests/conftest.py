"""Settings for all tests."""

from hypothesis import settings

# A shared core may be slow for a moment: how long one example takes says nothing. Speed is bench's subject.
settings.register_profile("headrace", deadline=None, print_blob=True)
settings.load_profile("headrace")
