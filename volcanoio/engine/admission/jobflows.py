"""Rules of a JobFlow (Volcano: pkg/webhooks/admission/jobflows): its graph, and beyond Volcano its probes and patches.

Templates are not checked: they may be created later, and problems with a job are reported on the flow then.
"""

from volcanoio.engine.admission.request import Findings, decode
from volcanoio.engine.admission.topology import warn_about_numa_policies
from volcanoio.engine.flows.dependencies import PROBE_PHASES, graph_problems
from volcanoio.model.batch import Job
from volcanoio.model.flow import Flow, FlowProbe, JobFlow
from volcanoio.model.validation.dns_names import qualified_rule


def check_job_flow(flow: JobFlow, findings: Findings) -> None:
    """Check a JobFlow."""
    for field, rule in graph_problems(flow.spec.flows):
        findings.refuse(field, rule)
    if not flow.spec.flows:
        findings.warn("spec.flows", "there are none, so nothing is run and the phase stays Pending", "name templates")
    for number, part in enumerate(flow.spec.flows):
        where = f"spec.flows[{number}]"
        if rule := qualified_rule(part.name):
            findings.refuse(f"{where}.name", f'"{part.name}" cannot be a JobTemplate: {rule}', "name a JobTemplate")
        if part.depends_on is not None and part.depends_on.probe is not None:
            _check_probe(part, part.depends_on.probe, f"{where}.dependsOn.probe", findings)
        if part.patch is not None:
            found = Findings()
            if (job := decode({"spec": part.patch.job_spec}, Job, found)) is not None:
                warn_about_numa_policies(job, found)
            for message in found.messages:
                findings.refuse_line(f"{where}.patch.{message.replace('spec.', 'jobSpec.', 1)}", "fix the patch")
            findings.left_out += found.left_out
            for warning in found.warnings:
                field, _, rule = warning.replace("spec.", "jobSpec.", 1).partition(": ")
                findings.warn(f"{where}.patch.{field}", rule, "so for the flow's job")


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
                findings.refuse(f"{where}.{name}[{number}].port", f"{port} is not a port", "give 1 to 65535")
    for number, status in enumerate(probe.task_status_list):
        if status.phase not in PROBE_PHASES:
            rule = f'"{status.phase}" is not a phase of a pod{findings.hint(status.phase, PROBE_PHASES)}'
            findings.refuse(f"{where}.taskStatusList[{number}].phase", rule)
