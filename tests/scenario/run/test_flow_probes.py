"""JobFlows whose pods are processes: a probe is really asked, and the next job finds the server that answered."""

from __future__ import annotations

import sys

import pytest

from tests.contract.support import Namespace, Obj
from tests.scenario.run.up_process import UpProcess, shell, until

FLOWS = "jobflows.v1alpha1.flow.volcano.sh"
TEMPLATES = "jobtemplates.v1alpha1.flow.volcano.sh"
JOBS = "jobs.v1alpha1.batch.volcano.sh"
API = {"apiVersion": "flow.volcano.sh/v1alpha1"}
SERVER = f"""
cat > serve.py <<'END'
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        fine = self.path == "/ready" and self.headers["X-Asks"] == "volcano"
        self.send_response(200 if fine else 404)
        self.end_headers()
http.server.HTTPServer((os.environ["IP"], 18080), Handler).serve_forever()
END
exec {sys.executable} serve.py
"""
ADDRESS: Obj = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
PROBES: dict[str, Obj] = {
    "http": {
        "httpGetList": [
            {"taskName": "main", "path": "/ready", "port": 18080, "httpHeader": {"name": "X-Asks", "value": "volcano"}}
        ]
    },
    "tcp": {"tcpSocketList": [{"taskName": "main", "port": 18080}]},
}


def template(name: str, script: str, **container: object) -> Obj:
    pod = {"spec": {"restartPolicy": "Never", "containers": [shell(script, **container)]}}
    spec = {"tasks": [{"name": "main", "replicas": 1, "template": pod}]}
    return {**API, "kind": "JobTemplate", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def flows(running: UpProcess) -> dict[str, Namespace]:
    """By probe a namespace with a flow that has it; all begin at once, as a server is asked every five seconds."""
    namespaces = {probe: running.namespace() for probe in PROBES}
    for probe, namespace in namespaces.items():
        create = running.cluster.create
        create(namespace.path(TEMPLATES), template("server", SERVER, env=[ADDRESS])).ok()
        create(namespace.path(TEMPLATES), template("client", "echo it is there")).ok()
        client = {"name": "client", "dependsOn": {"targets": ["server"], "probe": PROBES[probe]}}
        flow = {**API, "kind": "JobFlow", "metadata": {"name": "f"}, "spec": {"flows": [{"name": "server"}, client]}}
        create(namespace.path(FLOWS), flow).ok()
    return namespaces


@pytest.mark.parametrize("probe", sorted(PROBES))
def test_the_next_job_starts_once_the_server_answers(
    running: UpProcess, flows: dict[str, Namespace], probe: str
) -> None:
    namespace, cluster = flows[probe], running.cluster
    until(
        cluster,
        namespace.path(JOBS, "f-client"),
        lambda job: job.get("status", {}).get("state", {}).get("phase") == "Completed",
    )
    server = cluster.get(namespace.path(JOBS, "f-server")).ok()
    assert server["status"]["state"]["phase"] == "Running"
    cluster.delete(namespace.path(FLOWS, "f")).ok()
