"""Build the site: `python -m docs.site [DIRECTORY]`, by default into build/docs; a warning is an error.

Sphinx reads a copy of docs/ to which the generated pages are added, so that none of them is left in the repository.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from sphinx.cmd.build import main

from docs.site import links, reference


def build(directory: Path) -> int:
    """Build the site into a directory; returns Sphinx's exit code."""
    with tempfile.TemporaryDirectory(prefix="docs-") as temporary:
        source = Path(temporary) / "docs"
        shutil.copytree(links.DOCS, source, ignore=shutil.ignore_patterns("*.py", "__pycache__", "site"))
        for name, text in reference.pages().items():
            path = source / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        options = ["--fail-on-warning", "--keep-going", "--quiet", "--conf-dir", str(links.DOCS)]
        code: int = main([*options, "--doctree-dir", f"{temporary}/doctrees", str(source), str(directory)])
        return code


if __name__ == "__main__":
    target = Path(*sys.argv[1:]) if sys.argv[1:] else links.ROOT / "build" / "docs"
    failed = build(target)
    if not failed:
        print(f"open {target / 'index.html'}")
    sys.exit(failed)
