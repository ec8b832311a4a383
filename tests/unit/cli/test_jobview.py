"""What `vcctl job view` prints, and where."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from volcanoio.cli.jobs import describe
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


def test_events_have_ages_as_in_kubectl_and_the_last_applied_manifest_is_left_out() -> None:
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
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "a"}
    job = msgspec.convert({"metadata": {"name": "j", "annotations": annotations}}, Job)
    text = describe(job, (once, often), NOW)
    header, rule, often_line, once_line = text.splitlines()[-4:]
    assert header.split() == ["Type", "Reason", "Age", "Form", "Message"]
    assert rule.split() == ["-------"] * 5
    assert often_line.split()[:6] == ["Warning", "Often", "5m5s", "(x3", "over", "10m)"]
    assert once_line.split()[:3] == ["Normal", "Once", "5s"]
    assert "last-applied" not in text
    assert 'Annotations:\t{"team":"a"}\n' in text


def test_a_view_has_the_sections_and_labels_of_volcano_in_their_order() -> None:
    container = {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", "echo one\necho two"],
        "ports": [{"containerPort": 2222, "name": "job-port"}],
        "resources": {"requests": {"cpu": "500m", "nvidia.com/gpu": 1}, "limits": {"memory": "1Gi"}},
        "workingDir": "/work",
    }
    template = {
        "metadata": {"annotations": {"team": "a"}},
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
                "plugins": {"ssh": [], "env": ["--x=1"]},
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
    assert (
        describe(job, (), NOW).expandtabs(1)
        == """\
Name:        j
Namespace:   ns
Labels:      {"a":"1","b":"2"}
Annotations: <none>
API Version: batch.volcano.sh/v1alpha1
Kind:        Job
Metadata:
  Creation Timestamp: 2026-05-01T12:00:00Z
  Generate Name:
  Generation:         2
  Resource Version:   41
  UID:                8c1f
Spec:
  Min Available:      1
  Queue:              default
  Max Retry:          3
  Policy:             PodFailed -> RestartJob after 5s
  Plugins:
    Env: [--x=1]
    Ssh: []
  Scheduler Name:     volcano
  Tasks:
    Name: t
    Replicas: 2
    Min Available: 1
    Template:
      Metadata:
        Annotations:
          team: a
      Spec:
        Containers:
          Command:
            sh
            -c
            echo one
            echo two
          Image: busybox
          Name: main
          Ports:
            Container Port: 2222
            Name:           job-port
          Resources:
            Limits:
              Cpu:    0
              Memory: 1Gi
            Requests:
              Cpu:    500m
              Memory: 0
              nvidia.com/gpu: 1
          Working Dir: /work
        Image Pull Secrets:
          Name: pull
        Restart Policy: OnFailure
Status:
  Pending:       1
  Running:       1
  Min Available: 1
  Version:       3
  State:
    Phase: Running
  Controlled Resources:
    plugin-env: env
    plugin-ssh: ssh
  Conditions:
    Status TransitionTime
    Running  2026-05-01T12:00:02Z
Events:  <none>"""
    )
