"""Node, Chromium, playwright-core and the TypeScript compiler, for tests of the page that run where these are.

`make web-tools` puts the two npm packages into the cache; Chromium is Debian's package `chromium`. Nothing of the
product needs them, and the tests skip without them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGES = ("playwright-core@1", "typescript@7")


class MissingToolError(Exception):
    """A program is not here; the message says how to get it."""


def modules() -> Path:
    """Return the directory of the npm packages."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "volcanoio" / "web" / "node_modules"


def node() -> str:
    """Return the path of Node; raises MissingToolError."""
    if (found := shutil.which("node")) is None:
        raise MissingToolError("Node is not installed (20 or newer)")
    return found


def package(name: str) -> Path:
    """Return the directory of an npm package; raises MissingToolError."""
    node()
    if not (found := modules() / name).is_dir():
        raise MissingToolError(f"{found} is not there; `make web-tools` installs it (needs npm)")
    return found


def chromium() -> str:
    """Return the path of Chromium; raises MissingToolError."""
    for name in (os.environ.get("VOLCANOIO_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome"):
        if name and (found := shutil.which(name)):
            return found
    raise MissingToolError("Chromium is not installed (Debian: apt-get install chromium)")


def missing() -> str:
    """Return why the tests in a browser cannot run, "" if they can."""
    try:
        chromium()
        for name in ("playwright-core", "typescript"):
            package(name)
    except MissingToolError as error:
        return str(error)
    return ""


def main() -> int:
    """Install the npm packages, or with `--check` only print whether the tests can run; returns the exit code."""
    if sys.argv[1:] != ["--check"]:
        directory = modules().parent
        directory.mkdir(parents=True, exist_ok=True)
        words = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(directory), *PACKAGES]
        if subprocess.run(words, check=False).returncode:
            return 1
    if reason := missing():
        print(reason)
    return 1 if reason else 0


if __name__ == "__main__":
    sys.exit(main())
