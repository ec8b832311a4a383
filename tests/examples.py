"""How many random examples a property test tries, and whether they are the same ones every time.

`make test` tries the same examples on every machine and in every run, so that it fails because of a change and never by
chance. `make proof` tries new ones, `VOLCANOIO_EXAMPLES_TIMES` times as many, and prints the seed that repeats them.
"""

from __future__ import annotations

import os
from typing import Any, Final

from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

TIMES: Final = int(os.environ.get("VOLCANOIO_EXAMPLES_TIMES", "1"))
"""Factor by which the number of examples of every property test grows."""

_DEFAULT_EXAMPLES: Final = 100
"""Number of examples of a test that states none; the default of hypothesis."""


def examples(number: int = _DEFAULT_EXAMPLES, **more: Any) -> settings:
    """Return the settings of a property test for which `number` examples are enough in `make test`.

    `more` are further arguments of `hypothesis.settings`.
    """
    return settings(max_examples=number * TIMES, deadline=None, **more)


def load_profile() -> None:
    """Make the examples fixed, or new ones where `VOLCANOIO_EXAMPLES` is `new`."""
    settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=_DEFAULT_EXAMPLES * TIMES)
    # hypothesis derandomises by itself where it believes to be in CI (variable CI and others), so `new` says it, too.
    settings.register_profile(
        "new", derandomize=False, print_blob=True, deadline=None, max_examples=_DEFAULT_EXAMPLES * TIMES
    )
    if os.environ.get("VOLCANOIO_EXAMPLES") == "new":
        settings.load_profile("new")
        return
    settings.load_profile("fixed")
    _ignore_constants_of_loaded_modules()


def _ignore_constants_of_loaded_modules() -> None:
    """Keep hypothesis from drawing constants that it finds in the project's modules.

    It collects them from the modules that happen to be loaded, hence from the tests that ran before on the same worker:
    derandomised examples would still differ from run to run. There is no setting for it.
    """
    nothing = Constants()
    if not callable(getattr(providers, "_get_local_constants", None)):
        raise RuntimeError("hypothesis collects local constants in another way now: adapt tests/examples.py")
    providers._get_local_constants = lambda: nothing
