"""The lifecycle whole, at random; `make soak-lifecycle` tries for as long as one likes."""

from __future__ import annotations

import os

from hypothesis import HealthCheck

from tests.examples import examples
from tests.stateful.lifecycle_machine import Lifecycle

EXAMPLES = int(os.environ.get("VOLCANOIO_SOAK_LIFECYCLE", "40"))

TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = examples(EXAMPLES, stateful_step_count=40, suppress_health_check=list(HealthCheck))
