"""Where the data directory is, and whom it lets in, is nothing that a container notices."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.scenario.run.up_process import ended, log, run_pod, shell, up_process

_CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def test_a_claim_in_a_directory_named_relatively_can_be_written_by_any_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    user: dict[str, Any] = {"securityContext": {"runAsUser": 1234}} if os.geteuid() == 0 else {}
    with up_process(Path("data")) as server:
        namespace = server.namespace()
        server.cluster.create(namespace.path("persistentvolumeclaims"), _CLAIM).ok()
        path = run_pod(
            namespace,
            "writer",
            shell(
                "id -u; echo text > /no-such-directory-here/file; touch here; cat /no-such-directory-here/file",
                volumeMounts=[{"name": "data", "mountPath": "/no-such-directory-here"}],
            ),
            volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            **user,
        )
        assert ended(server.cluster, path)["status"]["phase"] == "Succeeded"
        assert log(server.cluster, path).split() == [str(1234 if user else os.geteuid()), "text"]
    for name in ("pods", "volumes"):
        assert (tmp_path / "data" / name).stat().st_mode & 0o777 == 0o700
