"""Decisions in another process, where sets and hashes have another order: they must be the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from volcanoio.framework import groups
from volcanoio.runtime.loading import discover
from volcanoio.runtime.mounted import classes_of
from volcanoio.runtime.plugincheck.check import digest
from volcanoio.runtime.scheduler_setup import Known

PATIENCE = 120.0


def here(file: Path, name: str, configuration: str | None) -> str:
    """A digest of what is decided with a file's plugin on random clusters, in this process."""
    found = classes_of(file, (groups.SCHEDULER_PLUGINS,))
    factory = next(each.cls for each in found if each.cls.name == name)  # type: ignore[attr-defined]  # every plugin has one
    return digest(factory, Known.of(discover()), configuration)


def there(file: Path, name: str, configuration: str | None) -> str:
    """As `here`, in a process whose hashes are other ones; "" when it did not end well."""
    order = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(file), name],
        input=configuration or "",
        env={**os.environ, "PYTHONHASHSEED": order},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.stdout.strip() if not done.returncode else ""


if __name__ == "__main__":
    sys.stdout.write(here(Path(sys.argv[1]), sys.argv[2], sys.stdin.read() or None))
