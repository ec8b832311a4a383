"""Hot reload of the scheduler: its configuration's file and its mounted plugins; see `reloading`."""

from __future__ import annotations

from collections.abc import Callable

from volcanoio.engine.scheduling.configuration import ConfigurationError
from volcanoio.framework.probe import Probe
from volcanoio.kube.clock import Clock
from volcanoio.runtime.loading import PluginError, discover
from volcanoio.runtime.reloading import Figures, Reloading, Seen, Watched
from volcanoio.runtime.scheduler_setup import Known, Setup

VALID, RELOADS, LAST = FIGURES = Figures(
    "volcano_scheduler_config_valid",
    "volcano_scheduler_config_reload_total",
    "volcano_scheduler_config_last_success_timestamp_seconds",
)


class Reloader(Reloading[tuple[Known, Setup]]):
    """`known` is what is in force, as `first` was seen; `adopt` takes over a new setup with the next cycle."""

    def __init__(
        self, watched: Watched, known: Known, first: Seen, *, adopt: Callable[[Setup], None], clock: Clock, probe: Probe
    ) -> None:
        super().__init__(
            watched, first, what="the scheduler's configuration", when="with the next cycle", figures=FIGURES,
            refusals=(ConfigurationError, PluginError), clock=clock, probe=probe,
        )  # fmt: skip
        self._dirs = watched.plugins_dirs
        self._known = known
        self._adopt = adopt

    def make(self, seen: Seen, *, mounted_changed: bool) -> tuple[Known, Setup]:
        """The setup of what was seen. Raises ConfigurationError, PluginError and MountError."""
        known = self._known
        if mounted_changed:
            registry = discover(plugins_dirs=self._dirs)
            known = Known.of(registry, ignore_unavailable=known.ignore_unavailable)
        return known, Setup.make(seen.text or "", known)

    def take_over(self, made: tuple[Known, Setup]) -> None:
        """Put it in force and warn of what is questionable in it."""
        self._known, setup = made
        self._adopt(setup)
        setup.warn(self.source)
