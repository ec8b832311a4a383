"""The script of the chart library, from an installed Python package (extra `volcanoio[web]`)."""

from __future__ import annotations

from functools import cache
from importlib import resources

PACKAGE, SCRIPT = "plotly", "package_data/plotly.min.js"


@cache
def chart_library() -> bytes | None:
    """Return plotly.js as its Python package ships it; None if that is not installed."""
    try:
        script = resources.files(PACKAGE) / SCRIPT
        return script.read_bytes() if script.is_file() else None
    except (ModuleNotFoundError, OSError):
        return None
