"""The checks of `volcanoio doctor` that read a cluster; each finding is printed as soon as its check has ended.

Nothing is changed. That the admission answers is found by a Job that it must refuse, created with dryRun=All.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from cryptography import x509

from volcanoio.cli.connection import Cluster
from volcanoio.cli.doctor import findings
from volcanoio.cli.doctor.findings import Finding, Severity
from volcanoio.cli.output import coloured, formatted
from volcanoio.cli.terminal import ExitCode
from volcanoio.compose.definitions import crd_manifests
from volcanoio.compose.installation import DEFINITION, DEPLOYMENT, KINDS
from volcanoio.compose.live.reading import CONFIG_MAP, KEY, configuration_at
from volcanoio.engine.scheduling.cluster.pod_fields import is_native, job_key
from volcanoio.engine.scheduling.config.lint import lint
from volcanoio.framework import entrypoints
from volcanoio.framework.arguments import pluralize
from volcanoio.kube.credentials.reviews import Action, may
from volcanoio.kube.errors import ApiError, Forbidden, NotFound, check
from volcanoio.model import kinds
from volcanoio.model.core import Pod
from volcanoio.model.scheduling import PodGroup, Queue
from volcanoio.model.workloads import NativePodGroup
from volcanoio.runtime.loading.registry import discover

_EMBEDDED = "+volcanoio"
"""In the version of an API server that `volcanoio up` runs, with all components in its process."""
_COLOURS = {Severity.OK: "green", Severity.SKIPPED: "dim", Severity.WARNING: "yellow", Severity.ERROR: "red"}
_ADMISSION = tuple(kind for kind in KINDS.values() if kind.kind.endswith("WebhookConfiguration"))
_PROBE = {
    "metadata": {"generateName": "volcanoio-doctor-"},
    "spec": {
        "plugins": {"volcanoio-doctor-asks": []},
        "tasks": [{"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "none"}]}}}],
    },
}
"""A Job that the admission refuses: it has a plugin that does not exist."""


class Right(NamedTuple):
    """A right that commands need, and for what."""

    verb: str
    resource: str
    needed_for: str


_RIGHTS = (
    Right("list", "jobs.batch.volcano.sh", "jobs, job, watch and wait"),
    Right("create", "jobs.batch.volcano.sh", "run and submit"),
    Right("delete", "jobs.batch.volcano.sh", "cancel"),
    Right("create", "commands.bus.volcano.sh", "suspend, resume and restart"),
    Right("list", "podgroups.scheduling.volcano.sh", "why"),
    Right("list", "queues.scheduling.volcano.sh", "queues"),
    Right("list", "pods", "pods, top and why"),
    Right("get", "pods/log", "logs"),
    Right("list", "events", "events and job"),
)


class Examination:
    """The cluster that is examined; `system` is the namespace of the components, `schedulers` the names that exist."""

    def __init__(self, cluster: Cluster, system: str, schedulers: Iterable[str]) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.system = system
        self.schedulers = tuple(schedulers)
        self.now = datetime.now(UTC)
        self.is_embedded = False

    async def api_server(self) -> list[Finding]:
        """Check that the API server answers, and how its clock differs from ours."""
        response = check(await self.client.transport.request("GET", "/version"))
        version = str(json.loads(response.body).get("gitVersion", "unknown"))
        self.is_embedded = version.endswith(_EMBEDDED)
        found = [Finding(Severity.OK, "api server", f"answers: Kubernetes {version}")]
        date = next((value for name, value in response.headers.items() if name.lower() == "date"), "")
        if date:
            self.now = parsedate_to_datetime(date)
            skew = abs((datetime.now(UTC) - self.now).total_seconds())
            if skew > 30 and not self.is_embedded:  # `up --speed` sets another time
                text = f"its clock and that of this machine differ by {skew:.0f} s: ages and times here are wrong"
                found.append(Finding(Severity.WARNING, "api server", text, "set the clock, as by NTP"))
        return found

    async def definitions(self) -> list[Finding]:
        """Check the CustomResourceDefinitions."""
        return findings.definitions(await self.client.list_raw(DEFINITION), crd_manifests())

    async def components(self) -> list[Finding]:
        """Check the Deployments of the components."""
        if found := findings.components(await self.client.list_raw(DEPLOYMENT, self.system), self.system):
            return found
        if self.is_embedded:
            return [Finding(Severity.OK, "components", "all run in the process of `volcanoio up`")]
        text = f"no component has a Deployment in namespace {self.system}"
        advice = "install them: volcanoio install; or name their namespace with --system-namespace"
        return [Finding(Severity.WARNING, "components", text, advice)]

    async def leaders(self) -> list[Finding]:
        """Check the Leases of scheduler and controllers."""
        found = findings.leases(await self.client.list_raw(kinds.LEASE, self.system), self.system, self.now)
        if found or self.is_embedded:
            return found
        text = f"no Lease in namespace {self.system}: neither a scheduler nor controllers ran there"
        advice = "install them: volcanoio install; those without --leader-elect have no Lease"
        return [Finding(Severity.WARNING, "leaders", text, advice)]

    async def admission(self) -> list[Finding]:
        """Check that Jobs are checked by the admission: it must refuse one that is created for a trial."""
        namespace = self.cluster.namespace or "default"
        path = kinds.JOB.path(namespace)
        body = json.dumps({"apiVersion": kinds.JOB.api_version, "kind": kinds.JOB.kind, **_PROBE}).encode()
        try:
            check(await self.client.transport.request("POST", path, query={"dryRun": "All"}, body=body))
        except ApiError as error:
            if "denied the request" in error.message:
                return [Finding(Severity.OK, "admission", "answers: it refused a Job as it must (a trial, not stored)")]
            if "failed calling webhook" in error.message:
                advice = f"see whether its pods run: kubectl get pods -n {self.system} -l app=volcano-admission"
                return [Finding(Severity.ERROR, "admission", error.message, advice)]
            raise
        text = "a Job with a plugin that does not exist is accepted: no admission checks Jobs"
        return [Finding(Severity.WARNING, "admission", text, "start it: volcanoio install, or `volcanoio webhooks`")]

    async def certificates(self) -> list[Finding]:
        """Check the authorities that webhook configurations trust, and the certificate in the admission's Secret."""
        ends: dict[str, datetime | None] = {}
        for kind in _ADMISSION:
            for configuration in await self.client.list_raw(kind):
                for webhook in configuration.get("webhooks") or ():
                    bundle = (webhook.get("clientConfig") or {}).get("caBundle")
                    if bundle and webhook["name"].endswith(".volcano.sh"):
                        ends[webhook["name"]] = _end(bundle, max)
        try:
            secret = await self.client.get_raw(kinds.SECRET, "volcano-admission-secret", self.system)
            ends |= {
                f"Secret {self.system}/volcano-admission-secret ({key})": _end(text, min)
                for key, text in (secret.get("data") or {}).items()
                if key.endswith((".crt", "cert.pem"))
            }
        except (NotFound, Forbidden):
            pass  # an administrator's own certificates, or a user without the right to read Secrets
        return findings.certificates(ends, self.now)

    async def configuration(self) -> list[Finding]:
        """Check the configuration of the cluster's scheduler."""
        text, remarks = await configuration_at(self.client, self.system, CONFIG_MAP, KEY)
        name = f"{KEY} in ConfigMap {self.system}/{CONFIG_MAP}"
        if text is None:
            if self.is_embedded or not any("you may not" in remark for remark in remarks):
                return [Finding(Severity.OK, "configuration", f"there is no {name}: the default is used")]
            return [Finding(Severity.SKIPPED, "configuration", remarks[0].partition(":")[0], "")]
        registry = discover()
        found = lint(
            text,
            plugins=registry.factories(entrypoints.SCHEDULER_PLUGINS),
            actions=registry.factories(entrypoints.ACTIONS),
        )
        advice = f"edit it: kubectl edit configmap {CONFIG_MAP} -n {self.system}"
        results = []
        for each in found:
            hint = f"; {each.suggestion}" if each.suggestion else ""
            text = f"{name}, line {each.line}: {each.text}{hint}"
            results.append(Finding(Severity(each.severity), "configuration", text, advice))
        return results or [Finding(Severity.OK, "configuration", f"{name} is valid")]

    async def rights(self) -> list[Finding]:
        """Check what the user may do in the namespace."""
        namespace = self.cluster.namespace or "default"
        answers = {right: await self._may(right, namespace) for right in _RIGHTS}
        advice = f"ask for the ClusterRole volcano-edit (or volcano-view) in namespace {namespace}"
        found = [
            Finding(
                Severity.WARNING,
                "rights",
                f"you may not {right.verb} {right.resource} in namespace {namespace}; needed for {right.needed_for}",
                advice,
            )
            for right in _RIGHTS
            if not answers[right]
        ]
        return found or [Finding(Severity.OK, "rights", f"you may use all commands in namespace {namespace}")]

    async def _may(self, right: Right, namespace: str) -> bool:
        resource, _, group = right.resource.partition(".")
        return await may(self.client.transport, Action(right.verb, group, resource, namespace))

    async def objects(self) -> list[Finding]:
        """Check pods, PodGroups and queues, of all namespaces if the user may read them, else of one."""
        namespace = ""
        try:
            pods = await self.client.list(kinds.POD)
        except Forbidden:
            namespace = self.cluster.namespace
            pods = await self.client.list(kinds.POD, namespace)
        groups = [each for each in await self.client.list(kinds.POD_GROUP, namespace) if isinstance(each, PodGroup)]
        waiting = [each for each in pods if isinstance(each, Pod)]
        try:
            groups += await self._native_groups(namespace)
        except Forbidden:  # whether those of pods exist is unknown
            waiting = [pod for pod in waiting if not is_native(job_key(pod))]
        queues = [each for each in await self.client.list(kinds.QUEUE) if isinstance(each, Queue)]
        return [
            *findings.pods(waiting, groups, self.schedulers),
            *findings.queues(queues, groups),
        ]

    async def _native_groups(self, namespace: str) -> list[PodGroup]:
        """Return native groups as PodGroups with the names of their jobs; none where they are not served."""
        try:
            found = await self.client.list(kinds.NATIVE_POD_GROUP, namespace)
        except NotFound:
            return []
        return [findings.named_group(each) for each in found if isinstance(each, NativePodGroup)]


def _end(encoded: str, choose: Callable[[Iterable[datetime]], datetime]) -> datetime | None:
    """Return the first or last end of PEM certificates in base64 (`choose`: min or max); None for other content."""
    try:
        return choose(each.not_valid_after_utc for each in x509.load_pem_x509_certificates(base64.b64decode(encoded)))
    except ValueError:
        return None


async def examine(examination: Examination) -> AsyncIterator[Finding]:
    """Yield the findings of all checks; those of a check that the user may not make are SKIPPED.

    Raises TransportError if the API server does not answer.
    """
    for finding in await examination.api_server():
        yield finding
    checks: dict[str, Callable[[], Awaitable[list[Finding]]]] = {
        "definitions": examination.definitions,
        "components": examination.components,
        "leaders": examination.leaders,
        "admission": examination.admission,
        "certificates": examination.certificates,
        "configuration": examination.configuration,
        "rights": examination.rights,
        "objects": examination.objects,
    }
    for name, run in checks.items():
        try:
            found = await run()
        except Forbidden as error:
            found = [Finding(Severity.SKIPPED, name, error.message, "ask an administrator to run `volcanoio doctor`")]
        except NotFound as error:
            found = [
                Finding(Severity.SKIPPED, name, f"the API server does not have it: {error.message}", "see definitions")
            ]
        except ApiError as error:
            found = [Finding(Severity.ERROR, name, error.message, "see the logs of the API server")]
        for finding in found:
            yield finding


async def run_doctor(cluster: Cluster, output: str, system: str, schedulers: Iterable[str]) -> int:
    """Print the findings of a cluster; returns exit code 1 if there are errors."""
    found: list[Finding] = []
    async for finding in examine(Examination(cluster, system, schedulers)):
        found.append(finding)
        if output == "text":
            _print(finding)
    counts = {severity: sum(each.severity is severity for each in found) for severity in Severity}
    if output == "json":
        print(formatted([each._asdict() for each in found], "json"))
    else:
        errors, warnings = counts[Severity.ERROR], counts[Severity.WARNING]
        print(f"{pluralize(errors, 'error')}, {pluralize(warnings, 'warning')}")
    return ExitCode.JOB_FAILED if counts[Severity.ERROR] else ExitCode.OK


def _print(finding: Finding) -> None:
    severity = coloured(str(finding.severity), _COLOURS[finding.severity])
    print(f"{severity:<9}{finding.check:<15}{finding.text}", flush=True)
    if finding.advice:
        print(f"{'':<24}-> {finding.advice}", flush=True)
