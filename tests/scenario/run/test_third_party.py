"""The job plugin of docs/job-plugins.md, saved as the page says, on a running cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.scenario.run.job_runs import JOBS, completed, said
from tests.scenario.run.up_process import up_process

PAGE = Path(__file__).parents[3] / "docs" / "job-plugins.md"


def block(title: str) -> str:
    """The text of a code block by the file's name beside it."""
    (text,) = re.findall(rf"^```\w+ {re.escape(title)}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return str(text)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """What a follower of the page has saved."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "slots.py").write_text(block("plugins/slots.py"))
    return tmp_path


def test_the_plugin_of_the_page_works_as_described(directory: Path) -> None:
    job = yaml.safe_load(block("job.yaml"))
    with up_process(directory / "data", "--memory", f"--plugins-dir={directory / 'plugins'}") as running:
        namespace = running.namespace()
        completed(namespace, job)
        slots = [f"elastic-worker-{index}.elastic:4" for index in range(2)]
        assert [said(namespace, f"elastic-worker-{index}") for index in range(2)] == [slots, slots]
        job["metadata"]["name"] = "other"
        job["spec"]["plugins"]["slots"] = ["--task=boss"]
        refusal = running.cluster.create(namespace.path(JOBS), job).refused(403, "Forbidden")
        assert "spec.plugins.slots: there is no task boss; name one so, or give --task=TASK" in refusal["message"]
