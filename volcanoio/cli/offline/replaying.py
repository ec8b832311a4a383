"""`volcanoio replay`: decides the events of a journal again, and prints whether anything differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from volcanoio.bus.journal import Difference, JournalError
from volcanoio.cli.terminal import CommandError, ExitCode, UsageError
from volcanoio.compose.gc_tuning import tune_garbage_collector
from volcanoio.compose.journals.replay import replay_controllers, replay_scheduler
from volcanoio.engine.scheduling.config.configuration import ConfigurationError
from volcanoio.runtime.loading.mounted_files import MountError
from volcanoio.runtime.loading.registry import PluginError, discover

PROCESSES = {"scheduler": replay_scheduler, "controllers": replay_controllers}
"""What replays the journal of a process, by the name of its directory."""


def run_replay(journal: Path, plugins_dirs: Sequence[Path], controllers_dirs: Sequence[Path]) -> int:
    """Replay every process of a journal and print the result; returns the exit code. Raises CommandError."""
    tune_garbage_collector()
    parts = {name: journal / name for name in PROCESSES if (journal / name).is_dir()}
    if not parts:
        wanted = " and ".join(PROCESSES)
        raise UsageError(f"{journal}: no journal; give the directory of --journal, which contains {wanted}")
    try:
        registry = discover(plugins_dirs=plugins_dirs, controllers_dirs=controllers_dirs)
        found = {name: PROCESSES[name](directory, registry) for name, directory in parts.items()}
    except (PluginError, MountError) as error:
        raise UsageError(error) from None
    except (JournalError, ConfigurationError) as error:
        raise CommandError(str(error)) from None
    for name, difference in found.items():
        print(f"{name}: {_text(difference)}", flush=True)
    return ExitCode.JOB_FAILED if any(found.values()) else ExitCode.OK


def _text(difference: Difference | None) -> str:
    return "every decision is the same" if difference is None else f"the first difference: {difference}"
