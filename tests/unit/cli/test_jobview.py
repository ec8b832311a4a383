"""What `vcctl job view` prints, and where."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest

from volcanoio.cli.vcctl.jobs import describe
from volcanoio.model import names
from volcanoio.model.batch import Job
from volcanoio.model.core import Event

NOW = datetime(2026, 5, 1, 12, 10, 5, tzinfo=UTC)


def test_a_view_shows_the_reason_and_the_overrides_of_tasks() -> None:
    override = (
        '[{"task":"t","resources":{"main":{"requests":{"memory":"2Gi"},"limits":{"memory":"4Gi"}}},"attempts":2}]'
    )
    status = {
        "state": {"phase": "Pending", "reason": "Hold", "message": "waits for the quota"},
        "controlledResources": {names.OVERRIDES: override},
    }
    text = describe(msgspec.convert({"metadata": {"name": "j"}, "status": status}, Job), (), NOW)
    assert "    Phase:\tPending\n    Reason:\tHold\n    Message:\twaits for the quota\n" in text
    assert "t main: request memory=2Gi, limit memory=4Gi (attempt 2)" in text


def test_events_have_ages_and_labels_are_written_as_go_writes_them() -> None:
    once = Event(
        type="Normal", reason="Once", first_timestamp="2026-05-01T12:10:00Z", last_timestamp="2026-05-01T12:10:00Z"
    )
    often = Event(
        type="Warning",
        reason="Often",
        count=3,
        first_timestamp="2026-05-01T12:00:00Z",
        last_timestamp="2026-05-01T12:05:00Z",
    )
    job = msgspec.convert({"metadata": {"name": "j", "annotations": {"b": "<ä>", "a": "1"}}}, Job)
    text = describe(job, (once, often), NOW)
    header, rule, often_line, once_line = text.splitlines()[-4:]
    assert header.split() == ["Type", "Reason", "Age", "Form", "Message"]
    assert rule.split() == ["-------"] * 5
    assert often_line.split()[:6] == ["Warning", "Often", "5m5s", "(x3", "over", "10m)"]
    assert once_line.split()[:3] == ["Normal", "Once", "5s"]
    assert 'Annotations:\t{"a":"1","b":"\\u003cä\\u003e"}\n' in text


@pytest.fixture
def shanghai(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local times are those of Shanghai; afterwards those of this machine."""
    with monkeypatch.context() as here:
        here.setenv("TZ", "Asia/Shanghai")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("shanghai")
def test_a_view_has_the_sections_and_labels_of_volcano_in_their_order() -> None:
    """Volcano's lines; those after `>>` are added here."""
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", "echo one"],
        "args": ["now"],
        "ports": [{"containerPort": 2222, "name": "job-port"}],
        "resources": {"requests": {"cpu": "1000m", "nvidia.com/gpu": 1}, "limits": {"memory": "1024Mi"}},
        "workingDir": "/work",
    }
    annotations = {"kubernetes.io/availablezone": "z1", "team": "a"}
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"containers": [container], "imagePullSecrets": [{"name": "pull"}], "restartPolicy": "OnFailure"},
    }
    job = msgspec.convert(
        {
            "metadata": {
                "name": "j",
                "namespace": "ns",
                "uid": "8c1f",
                "generation": 2,
                "resourceVersion": "41",
                "creationTimestamp": "2026-05-01T12:00:00Z",
                "labels": {"b": "2", "a": "1"},
            },
            "spec": {
                "minAvailable": 1,
                "queue": "default",
                "maxRetry": 3,
                "schedulerName": "volcano",
                "plugins": {"svc": [], "env": ["--x=1", "y"]},
                "policies": [{"event": "PodFailed", "action": "RestartJob", "timeout": "5s"}],
                "tasks": [{"name": "t", "replicas": 2, "minAvailable": 1, "template": template}],
            },
            "status": {
                "state": {"phase": "Running"},
                "running": 1,
                "pending": 1,
                "minAvailable": 1,
                "version": 3,
                "controlledResources": {"plugin-ssh": "ssh", "plugin-env": "env"},
                "conditions": [{"status": "Running", "lastTransitionTime": "2026-05-01T12:00:02Z"}],
            },
        },
        Job,
    )
    expected = VIEW.replace("|", "")
    assert describe(job, (), NOW) == expected.replace(">>", "")
    without_conditions = expected.replace(">>", "").partition("  Conditions:")[0] + "Events: \t<none>"
    assert describe(job, (), NOW, conditions=False) == without_conditions


VIEW = """\
Name:       \tj
Namespace:  \tns
Labels:     \t{"a":"1","b":"2"}
Annotations:\t<none>
API Version:\tbatch.volcano.sh/v1alpha1
Kind:       \tJob
Metadata:
  Creation Timestamp:\t2026-05-01 20:00:00 +0800 CST
  Generate Name:     \t
  Generation:        \t2
  Resource Version:  \t41
  Self Link:         \t
  UID:               \t8c1f
Spec:
  Min Available:     \t1
>>  Queue:             \tdefault
>>  Max Retry:         \t3
>>  Policy:            \tPodFailed -> RestartJob after 5s
  Plugins:
    Env:\t[--x=1 y]
    Ssh:\t[]
>>    Svc:\t[]
  Scheduler Name:    \tvolcano
  Tasks:
    Name:\tt
    Replicas:\t2
>>    Min Available:\t1
    Template:
      Metadata:
        Annotations:
          Cri . Cci . Io / Container - Type:          \t
          Kubernetes . Io / Availablezone:            \tz1
          Network . Alpha . Kubernetes . Io / Network:\t
>>          team:\ta
        Creation Timestamp:\t0001-01-01 00:00:00 +0000 UTC
      Spec:
        Containers:
          Command:
            sh
            -c
            echo one
>>          Args:
>>            now
          Image:\tbusybox
          Name: \tmain
          Ports:
            Container Port:\t2222
            Name:          \tjob-port
          Resources:
            Limits:
              Cpu:   \t0
              Memory:\t1Gi
            Requests:
              Cpu:   \t1
              Memory:\t0
>>              nvidia.com/gpu:\t1
            Working Dir:\t/work
        Image Pull Secrets:
          Name:     \tpull
        Restart Policy:   \tOnFailure
Status:
  Pending:      \t1
  Running:      \t1
  Min Available:\t1
  Version:      \t3
  State:
    Phase:\tRunning
  Controlled Resources:
    plugin-env: \tenv
    plugin-ssh: \tssh
  Conditions:
    Status\tTransitionTime
    Running \t2026-05-01 20:00:02 +0800 CST |
Events: \t<none>"""
"""`|` keeps the blank before it from editors."""
