"""NUMA policies, of which those without effect cause a warning, and HyperNodes, which describe the network topology."""

from collections.abc import Mapping

import msgspec
import re2

from volcanoio.engine.admission.request import Findings
from volcanoio.framework.arguments import shortened
from volcanoio.framework.scheduling.numa import TopologyPolicy, exclusive_cpus
from volcanoio.model import names
from volcanoio.model.base import Manifest
from volcanoio.model.batch import Job
from volcanoio.model.core import PodSpec
from volcanoio.model.nodes import HyperNode

TOPOLOGY_ANNOTATIONS = frozenset({names.NUMA_TOPOLOGY_POLICY})
"""Annotations of pods about topologies; pods with none of these need no review."""
_RE2 = re2.Options()
_RE2.log_errors = False
_RE2.max_mem = 1 << 20
MOST_PATTERNS = 100
"""Different regular expressions in one HyperNode."""


def warn_about_numa_policies(job: Job, findings: Findings) -> None:
    """Warn about the NUMA policies of a Job whose pods get no CPU exclusively."""
    for index, task in enumerate(job.spec.tasks):
        if task.topology_policy not in ("", TopologyPolicy.NONE) and not _gets_cpus(task.template):
            rule = "it has no effect: kubelets align only pods whose requests equal their limits, in whole CPUs"
            findings.warn(
                f"spec.tasks[{index}].topologyPolicy", rule, "set limits of cpu and memory equal to the requests"
            )


def _gets_cpus(template: Manifest) -> bool:
    """Return whether pods of a template get CPUs exclusively; those that cannot be read are refused elsewhere."""
    try:
        spec = msgspec.convert(template.get("spec") or {}, PodSpec, strict=False)
    except (msgspec.ValidationError, AttributeError):
        return True
    return bool(exclusive_cpus(spec))


def check_pod_topology(annotations: Mapping[str, str], before: Mapping[str, str] | None, findings: Findings) -> None:
    """Check a pod's annotations about topologies; `before` are those of the stored pod on an update."""
    given = annotations.get(names.NUMA_TOPOLOGY_POLICY, TopologyPolicy.NONE)
    if given not in set(TopologyPolicy) and (before is None or before.get(names.NUMA_TOPOLOGY_POLICY) != given):
        rule = f'"{shortened(given, 200)}" is no policy, and counts as none'
        findings.warn(
            f"metadata.annotations[{names.NUMA_TOPOLOGY_POLICY}]", rule, f"write one of {', '.join(TopologyPolicy)}"
        )


def check_hyper_node(node: HyperNode, findings: Findings) -> None:
    """Check that a HyperNode has members, and that their patterns are regular expressions of Go.

    Compiling a pattern can take milliseconds, so their number is limited, and the memory for each.
    """
    if not node.spec.members:
        findings.refuse("spec.members", "member must have at least one", "name the nodes or HyperNodes in it")
    matches = (member.selector.regex_match for member in node.spec.members)
    patterns = {index: match.pattern for index, match in enumerate(matches) if match is not None}
    if len(set(patterns.values())) > MOST_PATTERNS:
        rule = f"there are {len(patterns)} regular expressions, and at most {MOST_PATTERNS} are allowed"
        findings.refuse("spec.members", rule, "name nodes by exactMatch or labelMatch, or by fewer patterns")
        return
    wrong = {pattern: problem for pattern in set(patterns.values()) if (problem := _pattern_problem(pattern))}
    for index, pattern in patterns.items():
        if pattern in wrong:
            rule = f'"{shortened(pattern, 200)}" is not a regular expression: {wrong[pattern]}'
            path = f"spec.members[{index}].selector.regexMatch.pattern"
            findings.refuse(path, rule, "see github.com/google/re2/wiki/Syntax")


def _pattern_problem(pattern: str) -> str:
    try:
        re2.compile(pattern, _RE2)
    except re2.error as error:
        return str(error.args[0].decode())
    return ""
