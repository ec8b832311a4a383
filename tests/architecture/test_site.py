"""The site of docs/: all pages are in its navigation, diagrams show today's code, and it builds without warnings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from docs.site import diagrams, links, reference
from tests.architecture.measure import ROOT
from volcanoio.engine.jobs.state.transitions import TRANSITIONS

DOCS = ROOT / "docs"


def test_every_page_is_in_the_navigation() -> None:
    index = (DOCS / "index.md").read_text()
    listed = [target for target in links.LINK.findall(index) if "://" not in target]
    assert len(listed) == len(set(listed))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"index.md"}
    assert pages - set(listed) == set(), "list them in docs/index.md"


@pytest.mark.parametrize("file", diagrams.DIAGRAMS)
def test_a_diagram_is_what_the_code_draws(file: str) -> None:
    assert (diagrams.IMAGES / file).read_text() == diagrams.DIAGRAMS[file](), "run `make diagrams`, and look at it"


def test_every_diagram_is_on_a_page() -> None:
    text = "".join(page.read_text() for page in (*DOCS.rglob("*.md"), *ROOT.glob("*.md")))
    assert [path.name for path in diagrams.IMAGES.iterdir() if f"images/{path.name})" not in text] == []


def test_the_diagram_of_a_jobs_phases_has_every_phase_and_action_of_the_table() -> None:
    drawn = diagrams.job_phases()
    named = {*TRANSITIONS, *(action for row in TRANSITIONS.values() for action in row)}
    assert {word for word in named if f">{word}<" not in drawn} == set()


def test_the_reference_has_fields_commands_and_methods() -> None:
    pages = reference.pages()
    job = pages["reference/objects-job.md"]
    assert "- `minAvailable` *integer* " in job
    assert "    - `name` *list of string* Tasks of the same job" in job
    assert "## volcanoio why" in pages["reference/commands-volcanoio.md"]
    assert "## vcctl job run" in pages["reference/commands-vcctl.md"]
    assert "### Client.submit" in pages["reference/python.md"]
    assert {f"reference/objects-{kind}.md" for kind in ("queue", "podgroup", "cronjob", "jobflow")} <= pages.keys()


def test_links_out_of_docs_lead_to_the_repository_and_code_stays_as_it_is() -> None:
    text = "[a](../config/examples), [b](../README.md#x), [c](flags.md)\n```yaml\n[d](../README.md)\n```\n"
    tree, blob = f"{links.REPOSITORY}tree/main", f"{links.REPOSITORY}blob/main"
    outward = f"[a]({tree}/config/examples), [b]({blob}/README.md#x), [c](flags.md)\n```yaml\n[d](../README.md)\n```\n"
    assert links.outward(text, DOCS / "page.md") == outward


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    for module in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(module, reason="the documentation tools are not installed: make docs")
    command = [sys.executable, "-m", "docs.site", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "_images" / "job-phases.svg").exists()
    assert "shutdownAfterJobFinishes" in (tmp_path / "integrations" / "ray.html").read_text(), "manifests are shown"
