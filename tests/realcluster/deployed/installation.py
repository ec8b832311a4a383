"""Wheels and the environments that they are installed in: of this tree, and of an earlier commit."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def wheel(source: Path, directory: Path) -> Path:
    """Build the wheel of a source tree; returns the file."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(directory), str(source)]
    _run(command)
    return max(directory.glob("*.whl"), key=lambda path: path.stat().st_mtime)


def environment(built: Path, directory: Path) -> Path:
    """Make an environment with a wheel and all that it needs, from the package index; returns its directory."""
    venv.create(directory, with_pip=True)
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, str(built)])
    for path in (directory.parent, directory):
        path.chmod(0o755)
    return directory


def checked_out(revision: str, directory: Path) -> Path:
    """Write the tree of a commit; returns the directory."""
    directory.mkdir()
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x"], cwd=directory, input=archive, check=True)
    return directory


def described(revision: str = "HEAD") -> str:
    """Return the commit of a revision, with a note when the tree has changes that are not committed."""
    words = ["git", "log", "-1", "--format=%h %cs", revision]
    text = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    status = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True)
    return f"{text}, with changes" if revision == "HEAD" and status.stdout else text


def _run(command: list[str]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
