"""The machine on which a benchmark ran."""

from __future__ import annotations

import os
import platform
import resource
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np


def machine() -> dict[str, Any]:
    """Return processor, cores, memory and versions."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def software() -> dict[str, str]:
    """Return the versions of software that affects the figures."""
    return {name: version(name) for name in ("volcanoio", "msgspec", "numpy", "aiohttp", "anyio", "cryptography")}


def peak_memory() -> int:
    """Return the peak memory of this process in bytes."""
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes * (1 if platform.system() == "Darwin" else 1024)


def memory_now() -> int:
    """Return the current memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
