"""The manifests as users get them: `config/deploy`, and what `helm template` makes of the chart."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

from tests.goclient.building import NotBuiltError
from tests.helmchart.rendering import DEPLOY, NAMESPACE, RELEASE
from tests.helmchart.rendering import render as template
from tests.realcluster.deployed.installation import ROOT

EARLIER_IMAGE = "volcanoio.test/volcanoio:earlier"


def render(directory: Path) -> dict[str, list[Path]]:
    """Return the files of each form; `helm` is left out where Helm is not built."""
    forms = {"deploy": sorted(DEPLOY.glob("*.yaml"))}
    try:
        text = template(release=RELEASE, namespace=NAMESPACE)
    except NotBuiltError:
        return forms
    directory.mkdir()
    (directory / "helm.yaml").write_text(text)
    return forms | {"helm": [directory / "helm.yaml"]}


def earlier(source: Path, directory: Path) -> list[Path]:
    """Write the `config/deploy` of an earlier version's tree with EARLIER_IMAGE as image; returns the files."""
    files = sorted((source / "config" / "deploy").glob("*.yaml"))
    its_image = image(files)
    directory.mkdir()
    for path in files:
        (directory / path.name).write_text(path.read_text().replace(its_image, EARLIER_IMAGE))
    return [directory / path.name for path in files]


def image(files: list[Path]) -> str:
    """Return the image of the components; all of them have the same."""
    found = {
        container["image"]
        for path in files
        for document in yaml.safe_load_all(path.read_text())
        if document and document["kind"] == "Deployment"
        for container in document["spec"]["template"]["spec"]["containers"]
    }
    assert len(found) == 1, found
    return str(found.pop())


def earlier_revision() -> str:
    """Return the earliest commit from which all three components can be installed; "" if that is this one."""
    words = ["git", "log", "--reverse", "--format=%h", "-S", "vc-webhook-manager =", "--", "pyproject.toml"]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    return found[0] if found and found[0] != head.stdout.strip() else ""
