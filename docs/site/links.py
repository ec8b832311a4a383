"""Links of the pages: where they lead on the site, and the navigation that those of index.md make."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
REPOSITORY = "https://github.com/volcanoio/volcanoio/"
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
REFERENCE = "Reference"
"""The section of index.md to which the generated pages belong."""


def outward(text: str, page: Path) -> str:
    """Replace links to files outside docs/ by their addresses in the repository; code blocks stay as they are."""

    def replaced(found: re.Match[str]) -> str:
        target, hash_, fragment = found[1].partition("#")
        if "://" in target or target.startswith("mailto:") or not target:
            return found[1]
        path = (page.parent / target).resolve()
        if path.is_relative_to(DOCS) and path.suffix != ".py" and not path.is_dir():
            return found[1]
        kind = "tree" if path.is_dir() else "blob"
        return f"{REPOSITORY}{kind}/main/{path.relative_to(ROOT)}{hash_}{fragment}"

    parts = FENCED.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(replaced, part) for part in parts)


def shown_manifests(text: str, page: Path) -> str:
    """The files of config/examples that a page links to, as blocks of code."""
    shown = []
    for target in dict.fromkeys(LINK.findall(text)):
        path = (page.parent / target).resolve()
        if path.is_relative_to(ROOT / "config" / "examples") and path.is_file():
            language = "yaml" if path.suffix == ".yaml" else "text"
            shown.append(f"### {path.relative_to(ROOT)}\n\n```{language}\n{path.read_text()}```\n")
    return "\n## Files\n\n" + "\n".join(shown) if shown else ""


def navigation(index: str, generated: Iterable[str]) -> str:
    """Hidden tables of contents: a section of index.md with its links is a section of the navigation."""
    _, *parts = SECTION.split(index)
    made = []
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        pages = [target for target in LINK.findall(body) if "://" not in target]
        pages += generated if title == REFERENCE else []
        made.append(f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(pages) + "\n```\n")
    return "".join(made)
