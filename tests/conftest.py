"""What holds for all tests: property tests try fixed examples, and Ctrl-C can be sent."""

from __future__ import annotations

import signal

from tests.examples import load_profile

load_profile()

# A shell that runs us in the background, or nohup, has these ignored, and so would our children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
