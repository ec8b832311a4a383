"""`make deploy`: render the chart with its default values into config/deploy, with the Helm of `make go-clients`.

The chart is the source; only `config/deploy/00-namespace.yaml` and `config/kustomization.yaml` are written by hand.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from typing import Any

from tests.goclient.building import HELM, program
from volcanoio.model.documents import load_all_yaml
from volcanoio.model.packaged import config_path

CHART = config_path("helm") / "volcanoio"
DEPLOY = config_path("deploy")
RELEASE, NAMESPACE = "volcano", "volcano-system"
FILES = {
    "scheduler": "10-scheduler.yaml",
    "controllers": "20-controllers.yaml",
    "admission": "30-admission.yaml",
    "webhooks": "40-webhooks.yaml",
    "user-roles": "50-user-roles.yaml",
}
"""The file for what each template makes, in the order in which they are applied."""
_HEADER = "# Rendered from config/helm/volcanoio with its default values by `make deploy`; do not edit.\n"
_SOURCE = re.compile(r"^# Source: volcanoio/templates/([\w/-]+)\.yaml\n", re.MULTILINE)
_MANAGED_BY = re.compile(r"^ *app.kubernetes.io/managed-by: Helm\n", re.MULTILINE)


class HelmError(Exception):
    """Helm refused; the message is its own."""


def helm(*arguments: str, stdin: str = "") -> str:
    """Run Helm and return its output; raises HelmError and NotBuiltError."""
    ran = subprocess.run([program(HELM), *arguments], input=stdin, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise HelmError("\n".join(line for line in ran.stderr.splitlines() if not line.startswith("level=INFO")))
    return ran.stdout


def render(*sets: str, release: str = RELEASE, namespace: str = NAMESPACE, more: Sequence[str] = ()) -> str:
    """Return what `helm template` prints for the chart without its tests, with `--set` for each of `sets`."""
    flags = [flag for each in sets for flag in ("--set", each)]
    return helm("template", release, str(CHART), "--skip-tests", "--namespace", namespace, *flags, *more)


def manifests(*sets: str, **options: Any) -> list[dict[str, Any]]:
    """Return the rendered objects."""
    return [each for each in load_all_yaml(render(*sets, **options)) if each]


def deploy_files() -> dict[str, str]:
    """Return the text of each rendered file of config/deploy."""
    found: dict[str, list[str]] = {}
    for document in re.split(r"^---\n", render(), flags=re.MULTILINE):
        if source := _SOURCE.search(document):
            text = _MANAGED_BY.sub("", _SOURCE.sub("", document))
            found.setdefault(FILES[source[1]], []).append(text.strip() + "\n")
    return {name: _HEADER + "---\n".join(found[name]) for name in FILES.values()}


if __name__ == "__main__":
    for name, text in deploy_files().items():
        (DEPLOY / name).write_text(text)
