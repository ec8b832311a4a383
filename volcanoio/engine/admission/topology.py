"""Network topologies and NUMA policies, which no component supports yet, wherever they can be written.

A `hard` network topology could not be kept, so it is refused. A mere preference is accepted with a warning. These
rules are removed when the features are implemented. HyperNodes, which describe the topology, are checked here too.
"""

from collections.abc import Iterator, Mapping

import re2

from volcanoio.engine.admission.request import Findings
from volcanoio.framework.arguments import shortened
from volcanoio.model import names
from volcanoio.model.batch import Job, NetworkTopology
from volcanoio.model.nodes import HyperNode
from volcanoio.model.scheduling import PodGroup

TOPOLOGY_ANNOTATIONS = frozenset({names.TOPOLOGY_MODE, names.TOPOLOGY_HIGHEST_TIER, names.NUMA_TOPOLOGY_POLICY})
"""Annotations of pods about topologies; pods with none of these need no review."""
_RE2 = re2.Options()
_RE2.log_errors = False
_RE2.max_mem = 1 << 20
MOST_PATTERNS = 100
"""Different regular expressions in one HyperNode."""
_NO_EFFECT = ("accepted, but not considered yet", "the pods are placed and kept as without it")


def job_topologies(job: Job) -> Iterator[tuple[str, NetworkTopology]]:
    """Iterate over the network topologies of a Job, each with its path."""
    if job.spec.network_topology is not None:
        yield "spec.networkTopology", job.spec.network_topology
    for index, task in enumerate(job.spec.tasks):
        if task.partition_policy is not None and task.partition_policy.network_topology is not None:
            yield f"spec.tasks[{index}].partitionPolicy.networkTopology", task.partition_policy.network_topology


def group_topologies(group: PodGroup) -> Iterator[tuple[str, NetworkTopology]]:
    """Iterate over the network topologies of a PodGroup, each with its path."""
    if group.spec.network_topology is not None:
        yield "spec.networkTopology", group.spec.network_topology
    for index, policy in enumerate(group.spec.sub_group_policy):
        if policy.network_topology is not None:
            yield f"spec.subGroupPolicy[{index}].networkTopology", policy.network_topology


def refuse_hard(topologies: Iterator[tuple[str, NetworkTopology]], findings: Findings) -> None:
    """Refuse every hard topology. One without a mode is hard by the default of the schema."""
    for path, topology in topologies:
        if topology.mode != "soft":
            findings.refuse(
                f"{path}.mode",
                "hard, which is the default of mode, is not supported yet",
                'write "mode: soft" (accepted, and without effect so far), or remove networkTopology',
            )


def warn_about_soft(topologies: Iterator[tuple[str, NetworkTopology]], findings: Findings) -> None:
    """Warn about every soft topology."""
    for path, topology in topologies:
        if topology.mode == "soft":
            findings.warn(path, *_NO_EFFECT)


def warn_about_job_topologies(job: Job, findings: Findings) -> None:
    """Warn about the soft network topologies and the NUMA policies of a Job."""
    warn_about_soft(job_topologies(job), findings)
    for index, task in enumerate(job.spec.tasks):
        if task.topology_policy not in ("", "none"):
            findings.warn(f"spec.tasks[{index}].topologyPolicy", *_NO_EFFECT)


def check_pod_topology(annotations: Mapping[str, str], before: Mapping[str, str] | None, findings: Findings) -> None:
    """Check a pod's annotations about topologies; `before` are those of the stored pod on an update."""
    given = _topology_annotations(annotations)
    if before is not None and _topology_annotations(before) == given:
        return
    if given.get(names.NUMA_TOPOLOGY_POLICY, "none") != "none":
        findings.warn(f"metadata.annotations[{names.NUMA_TOPOLOGY_POLICY}]", *_NO_EFFECT)
    path, mode = f"metadata.annotations[{names.TOPOLOGY_MODE}]", given.get(names.TOPOLOGY_MODE, "")
    if mode.lower() == "soft":
        findings.warn(path, *_NO_EFFECT)
    elif names.TOPOLOGY_MODE in given or names.TOPOLOGY_HIGHEST_TIER in given:
        means = "hard" if mode.lower() == "hard" else f'"{mode}" means hard, which'
        findings.refuse(
            path,
            f"{means} is not supported yet",
            f'write "soft" (accepted, and without effect so far), or remove it and {names.TOPOLOGY_HIGHEST_TIER}',
        )


def _topology_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in annotations.items() if key in TOPOLOGY_ANNOTATIONS}


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
