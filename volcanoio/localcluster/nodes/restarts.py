"""Whether a container that ended is to run again (Kubernetes: `pkg/api/v1/pod` ContainerShouldRestart)."""

from __future__ import annotations

from volcanoio.localcluster.nodes.containers import ContainerRun, Role
from volcanoio.model.core import Container, Pod


def restarts(pod: Pod, run: ContainerRun) -> bool:
    """Rules of the container go first, then its own policy, then the pod's; an init container is done by success."""
    code = run.ended.exit_code if run.ended is not None else 0
    if run.role is Role.SIDECAR:
        return True
    if run.spec.restart_policy and _by_rule(run.spec, code):
        return True
    policy = run.spec.restart_policy or pod.spec.restart_policy
    if run.role is Role.INIT:
        return code != 0 and policy != "Never"
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _by_rule(container: Container, code: int) -> bool:
    """Whether a `restartPolicyRules` entry asks for a restart after this exit code."""
    for rule in container.restart_policy_rules:
        codes = rule.get("exitCodes") or {}
        listed = code in (codes.get("values") or ())
        if listed == (codes.get("operator") == "In"):
            return rule.get("action") in ("Restart", "RestartAllContainers")
    return False
