"""The documentation names modules, files and pages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.measure import ROOT, SOURCES, files

PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md"), *ROOT.glob("plugins/**/*.md")]
)
CURRENT = [page for page in PAGES if page.name != "CHANGELOG.md" and ".venv" not in page.parts]
"""The changelog names what there was."""
IDS = [str(page.relative_to(ROOT)) for page in CURRENT]
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r"^```\w+ (\S+)$", re.MULTILINE)
"""The file that a reader of a guide writes."""
FOLDER = re.compile(r"(?:volcanoio|plugins|policies|tests|bench|config|docs)/[\w./-]*")
INSIDE = re.compile(r"(?:bus|cli|compose|engine|framework|kube|localcluster|model|runtime|apiserver)/[\w./-]*")
"""Paths below `volcanoio`; a page names them in full."""
MODULE = re.compile(r"(?:volcanoio|volcanoio_plugins|volcanoio_policies|tests)(?:\.[a-z_0-9]+)+")
NAME = re.compile(r"^(?:[a-z]+(?:_[a-z]+)+|(?:[A-Z][a-z]+){2,})(?=\(\)$|$)")
"""A name in snake_case or CamelCase, of a function with its parentheses."""
ENTRY_POINTS = re.compile(r'^\[project\.entry-points\."([\w.]+)"\]$', re.MULTILINE)
DOMAINS = ("volcanoio.dev",)
SCREEN = 70
"""Lines of one screen."""
REFERENCE = {
    "docs/benchmarks.md",
    "docs/differences.md",
    "docs/flags.md",
    "docs/metrics.md",
    "docs/scheduler-configuration.md",
    "docs/writing-a-controller.md",
    "docs/writing-a-plugin.md",
    "docs/writing-a-policy.md",
}
"""Pages for looking things up, and guides whose files are printed in full."""


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text())


def named(page: Path) -> list[str]:
    """Return what a page has in backticks, without the code of fenced blocks."""
    return CODE.findall(prose(page))


def has_module(name: str) -> bool:
    """Return whether a dotted name is a module, or a name in one."""
    parts = name.split(".")
    folders = [source / Path(*parts) for source in SOURCES]
    if any(path.is_dir() or path.with_suffix(".py").exists() for path in folders):
        return True
    parents = [path.parent.with_suffix(".py") for path in folders] + [path.parent / "__init__.py" for path in folders]
    return any(path.exists() and re.search(rf"\b{parts[-1]}\b", path.read_text()) for path in parents)


@pytest.mark.parametrize("page", CURRENT, ids=IDS)
def test_paths_that_a_page_names_exist(page: Path) -> None:
    written = TITLE.findall(page.read_text())
    paths = [path for path in named(page) if FOLDER.fullmatch(path) and not re.search(r"NAME|VERSION", path)]
    assert [path for path in paths if not (ROOT / path).exists() and path not in written] == []


@pytest.mark.parametrize("page", CURRENT, ids=IDS)
def test_a_page_names_paths_in_full(page: Path) -> None:
    assert [path for path in named(page) if INSIDE.fullmatch(path)] == []


@pytest.mark.parametrize("page", CURRENT, ids=IDS)
def test_modules_that_a_page_names_exist(page: Path) -> None:
    groups = ENTRY_POINTS.findall((ROOT / "pyproject.toml").read_text())
    modules = [name for name in named(page) if MODULE.fullmatch(name) and name not in groups]
    assert [name for name in modules if not has_module(name) and not name.startswith(DOMAINS)] == []


def test_names_on_the_pages_about_the_design_are_in_the_product() -> None:
    pages = [*ROOT.glob("docs/design/*.md"), ROOT / "docs/architecture.md", ROOT / "docs/reading-guide.md"]
    words = {word for _, path in files() for word in re.findall(r"\w+", path.read_text())}
    names = {name for page in pages for code in named(page) for name in NAME.findall(code)}
    assert names
    assert sorted(name for name in names if name not in words) == []


@pytest.mark.parametrize("page", CURRENT, ids=IDS)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = [link.partition("#")[0] for link in LINK.findall(prose(page)) if "://" not in link]
    assert [link for link in links if link and not (page.parent / link).exists()] == []


def anchors(page: Path) -> set[str]:
    """Return the fragments that lead to the headings of a page, as GitHub and MyST make them."""
    titles = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", CURRENT, ids=IDS)
def test_fragments_of_links_name_headings(page: Path) -> None:
    links = [link.partition("#") for link in LINK.findall(prose(page)) if "#" in link and "://" not in link]
    targets = [(page.parent / name if name else page, fragment) for name, _, fragment in links]
    assert [f"{target.name}#{fragment}" for target, fragment in targets if fragment not in anchors(target)] == []


def test_the_reading_guide_leads_through_eight_files() -> None:
    rows = re.findall(r"^\| (\d) \| `([\w./]+)` \|", (ROOT / "docs/reading-guide.md").read_text(), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 9))
    assert [path for _, path in rows if not (ROOT / path).is_file()] == []


def test_the_diagram_of_the_architecture_names_packages_that_exist() -> None:
    diagram = FENCED.findall((ROOT / "docs/architecture.md").read_text())[0]
    paths = set(re.findall(r"[a-z]+(?:/[a-z_]+)+", diagram))
    assert paths
    found = {path for path in paths if (ROOT / "volcanoio" / path).is_dir()}
    assert paths - found == {path for path in paths if (ROOT / "volcanoio" / f"{path}.py").exists()}


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_short(page: Path) -> None:
    lines = page.read_text().count("\n")
    assert lines <= 2 * SCREEN or str(page.relative_to(ROOT)) in REFERENCE
