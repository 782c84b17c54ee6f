"""Settings for all tests."""

import signal

from hypothesis import settings

# A shared core may be slow for a moment: how long one example takes says nothing. Speed is bench's subject.
settings.register_profile("headrace", deadline=None, print_blob=True)
settings.load_profile("headrace")

# A shell has its background jobs ignore Ctrl-C, and all that they start; programs of these tests must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
