"""Rules of a JobFlow (Volcano: pkg/webhooks/admission/jobflows): its graph, and beyond Volcano its probes and patches.

Templates are not looked at: they may come later, and what is wrong with a job is told on the flow when it is made.
"""

from __future__ import annotations

from volcanoio.engine.admission.decoding import typed
from volcanoio.engine.admission.dnsnames import qualified_rule
from volcanoio.engine.admission.findings import Findings
from volcanoio.engine.flows.graph import graph_problems
from volcanoio.engine.flows.readiness import PHASES
from volcanoio.framework.arguments import suggestion
from volcanoio.model.batch import Job
from volcanoio.model.flow import Flow, FlowProbe, JobFlow


def check_job_flow(flow: JobFlow, findings: Findings) -> None:
    """Everything that can be wrong with a JobFlow."""
    for field, rule in graph_problems(flow.spec.flows):
        findings.refuse(field, rule)
    if not flow.spec.flows:
        findings.mention(
            "spec.flows", "there are none, so nothing is run and the phase stays Pending", "name templates"
        )
    for number, part in enumerate(flow.spec.flows):
        where = f"spec.flows[{number}]"
        if rule := qualified_rule(part.name):
            findings.refuse(f"{where}.name", f'"{part.name}" can be no JobTemplate: {rule}', "name a JobTemplate")
        if part.depends_on is not None and part.depends_on.probe is not None:
            _check_probe(part, part.depends_on.probe, f"{where}.dependsOn.probe", findings)
        if part.patch is not None:
            found = Findings()
            typed({"spec": part.patch.job_spec}, Job, found)
            for message in found.messages:
                findings.pass_on(f"{where}.patch.{message.replace('spec.', 'jobSpec.', 1)}", "mend the patch")


def _check_probe(part: Flow, probe: FlowProbe, where: str, findings: Findings) -> None:
    if part.depends_on is not None and not part.depends_on.targets:
        findings.refuse(where, "a probe is about targets, and there are none", "name them in dependsOn.targets")
    ports = {
        "httpGetList": [entry.port for entry in probe.http_get_list],
        "tcpSocketList": [entry.port for entry in probe.tcp_socket_list],
    }
    for name, given in ports.items():
        for number, port in enumerate(given):
            if not 0 < port < 65536:
                findings.refuse(f"{where}.{name}[{number}].port", f"{port} is no port", "give 1 to 65535")
    for number, status in enumerate(probe.task_status_list):
        if status.phase not in PHASES:
            rule = f'"{status.phase}" is no phase of a pod{suggestion(status.phase, sorted(PHASES))}'
            findings.refuse(f"{where}.taskStatusList[{number}].phase", rule)
