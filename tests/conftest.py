"""What holds for all tests: where CI runs them, the same examples are tried every time, and Ctrl-C can be sent."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell runs us in the background: our children would ignore it
    signal.signal(signal.SIGINT, signal.default_int_handler)
