"""What `volcanoio install` applies to a cluster, and what `volcanoio uninstall` removes: config/crds and config/deploy.

Objects are ours if they have the label `app.kubernetes.io/name: volcanoio`. Volcano's own objects have the same names;
they are never changed or removed, except for CustomResourceDefinitions that ours replace without a loss.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import anyio
import yaml

from volcanoio.compose.definitions import compare, crd_manifests
from volcanoio.kube.client import Client
from volcanoio.kube.errors import Conflict, NotFound
from volcanoio.kube.requests import DeleteOptions
from volcanoio.model.base import Manifest
from volcanoio.model.custom import custom_kind
from volcanoio.model.kinds import CONFIG_MAP, LEASE, NAMESPACE, PDB, SECRET, SERVICE, Kind
from volcanoio.model.manifests import load_manifests
from volcanoio.model.names import SYSTEM_NAMESPACE
from volcanoio.model.packaged import config_path
from volcanoio.model.validation.dns_names import label_rule

Report = Callable[[str], None]
"""Receives one line for each object."""
MANAGER = "volcanoio-install"
"""The field manager of what `install` applies."""
_NAME, _MANAGED_BY = "app.kubernetes.io/name", "app.kubernetes.io/managed-by"
_RBAC, _ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
DEFINITION = custom_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", namespaced=False)
DEPLOYMENT = custom_kind("apps", "v1", "Deployment")
KINDS = {
    (kind.api_version, kind.kind): kind
    for kind in (
        CONFIG_MAP, LEASE, NAMESPACE, PDB, SECRET, SERVICE, DEPLOYMENT, DEFINITION,
        custom_kind("", "v1", "ServiceAccount"),
        custom_kind(_RBAC, "v1", "ClusterRole", namespaced=False),
        custom_kind(_RBAC, "v1", "ClusterRoleBinding", namespaced=False),
        custom_kind(_RBAC, "v1", "Role"),
        custom_kind(_RBAC, "v1", "RoleBinding"),
        custom_kind(_ADMISSION, "v1", "MutatingWebhookConfiguration", namespaced=False),
        custom_kind(_ADMISSION, "v1", "ValidatingWebhookConfiguration", namespaced=False),
    )
}  # fmt: skip
"""The kinds of everything that is applied, by apiVersion and kind."""
_REMOVED_FIRST = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "PodDisruptionBudget", "Deployment")
"""Webhooks go before the processes that answer them, and these before their accounts, leases and certificates."""
_POLL_SECONDS = 0.2


class InstallationError(Exception):
    """An installation that would damage another one, or an option that cannot be used; contains the next step."""


@dataclass(frozen=True, kw_only=True)
class InstallOptions:
    """Options of the manifests: None leaves the value of config/deploy. Raises InstallationError for a wrong one."""

    namespace: str = SYSTEM_NAMESPACE
    image: str | None = None
    replicas: int | None = None

    def __post_init__(self) -> None:
        """Check the values that the manifests get."""
        if rule := label_rule(self.namespace):
            raise InstallationError(f'--namespace: "{self.namespace}" cannot be the name of a namespace: {rule}')
        if self.image is not None and (not self.image or self.image != "".join(self.image.split())):
            raise InstallationError(f'--image: "{self.image}" is not an image; write REGISTRY/NAME:TAG')


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What is installed: the CustomResourceDefinitions, and the components with everything that they need."""

    definitions: bool = True
    components: bool = True


EVERYTHING = Parts()


def manifests(options: InstallOptions) -> list[Manifest]:
    """Return everything but the definitions, in the order in which it is applied."""
    found: list[Manifest] = []
    for file in sorted(config_path("deploy").glob("*.yaml")):
        # The name of the namespace is in flags, subjects and references too; nothing else contains it.
        text = file.read_text(encoding="utf-8").replace(SYSTEM_NAMESPACE, options.namespace)
        found += load_manifests(text, str(file))
    for deployment in (one for one in found if one["kind"] == "Deployment"):
        spec = deployment["spec"]
        if options.replicas is not None:
            spec["replicas"] = options.replicas
        for container in spec["template"]["spec"]["containers"] if options.image is not None else ():
            container["image"] = options.image
    return found


def render(options: InstallOptions, parts: Parts = EVERYTHING) -> str:
    """Return the manifests as a YAML stream for `kubectl apply --server-side -f -`."""
    texts = []
    if parts.definitions:
        texts += [file.read_text(encoding="utf-8") for file in sorted(config_path("crds").glob("*.yaml"))]
    if parts.components:
        texts.append(yaml.safe_dump_all(manifests(options), sort_keys=False, width=120))
    return "---\n".join(texts)


async def install(client: Client, options: InstallOptions, report: Report, parts: Parts = EVERYTHING) -> None:
    """Apply the definitions and then everything else. Raises InstallationError before anything is changed."""
    wanted = manifests(options) if parts.components else []
    await _check_deployments(client, wanted)
    for definition in crd_manifests() if parts.definitions else ():
        report(await _apply_definition(client, definition))
    for manifest in wanted:
        report(await _apply(client, manifest))


async def _check_deployments(client: Client, wanted: Iterable[Manifest]) -> None:
    """Refuse to write over Deployments of Volcano, or of a release of Helm."""
    for manifest in wanted:
        if manifest["kind"] != "Deployment" or (present := await _read(client, manifest)) is None:
            continue
        name, namespace = present["metadata"]["name"], present["metadata"]["namespace"]
        if release := _helm_release(present):
            use = f"use `helm upgrade {release} config/helm/volcanoio --namespace {namespace}`"
            raise InstallationError(f"Deployment {namespace}/{name} belongs to the Helm release {release}: {use}")
        if not _is_ours(present):
            raise InstallationError(
                f"Deployment {namespace}/{name} is not volcanoio's, but that of Volcano perhaps: two schedulers or "
                "controllers must not work on the same objects. Remove that installation first, as "
                "docs/upgrade-from-volcano.md shows, or give another --namespace"
            )


async def _apply_definition(client: Client, ours: Manifest) -> str:
    """Create a definition, or replace the present one if nothing is lost; returns what was done."""
    name = ours["metadata"]["name"]
    label = f"customresourcedefinition {name}"
    try:
        present = await client.get_raw(DEFINITION, name)
    except NotFound:
        await client.apply(DEFINITION, ours, manager=MANAGER)
        return f"{label} created"
    difference = compare(present, ours)
    if difference.lost:
        return f"{label} kept as it is: {_summary(difference.lost)}"
    applied = await client.apply(DEFINITION, ours, manager=MANAGER, force=True)
    if applied["metadata"]["resourceVersion"] == present["metadata"]["resourceVersion"]:
        return f"{label} unchanged"
    changes = [f"adds {_summary(difference.added)}"] if difference.added else []
    changes += [f"for new values only: {_summary(difference.stricter)}"] if difference.stricter else []
    return f"{label} replaced{': ' if changes else ''}{'. '.join(changes)}"


def _summary(items: Sequence[str], shown: int = 3) -> str:
    more = f"; and {len(items) - shown} more" if len(items) > shown else ""
    return "; ".join(items[:shown]) + more


async def _apply(client: Client, manifest: Manifest) -> str:
    """Apply an object. A ConfigMap that somebody else changed is kept, as it contains an administrator's choices."""
    label = _label(manifest)
    present = await _read(client, manifest)
    try:
        force = manifest["kind"] != "ConfigMap"
        applied = await client.apply(_kind(manifest), manifest, manager=MANAGER, force=force)
    except Conflict as conflict:
        return f"{label} kept as it is: {conflict.message}"
    if present is None:
        return f"{label} created"
    same = applied["metadata"]["resourceVersion"] == present["metadata"]["resourceVersion"]
    return f"{label} {'unchanged' if same else 'configured'}"


async def uninstall(client: Client, options: InstallOptions, report: Report) -> None:
    """Remove what `install` made, except for the namespace and the definitions; return once the processes have ended.

    Raises InstallationError before anything is changed if a release of Helm owns the objects.
    """
    wanted = [one for one in manifests(options) if one["kind"] != "Namespace"]
    present = [found for one in wanted if (found := await _read(client, one)) is not None]
    for one in present:
        if _is_ours(one) and (release := _helm_release(one)):
            use = f"use `helm uninstall {release} --namespace {options.namespace}`"
            raise InstallationError(f"{_label(one)} belongs to the Helm release {release}: {use}")
    for one in (one for one in present if not _is_ours(one)):
        report(f"{_label(one)} kept: it is not volcanoio's")
    ours = [one for one in present if _is_ours(one)]
    ours.sort(key=lambda one: _REMOVED_FIRST.index(one["kind"]) if one["kind"] in _REMOVED_FIRST else 9)
    for one in ours:
        is_deployment = one["kind"] == "Deployment"
        # In the foreground: the Deployment is gone once its pods are, and nothing is written after that.
        await _delete(client, one, "Foreground" if is_deployment else "Background")
        if is_deployment:
            report(f"{_label(one)}: waiting until its pods have ended")
            await _until(partial(_is_gone, client, one))
        report(f"{_label(one)} deleted")


async def purge(client: Client, report: Report) -> None:
    """Remove our definitions and all objects of their kinds; pods and other dependents stay, without an owner.

    An object can outlive its namespace when the API server restarts during the deletion. Then nothing can depend on it,
    and Kubernetes could not remove the finalizer that orphaning needs.
    """
    definitions = await present_definitions(client)
    namespaces = {"", *(one["metadata"]["name"] for one in await client.list_raw(NAMESPACE))}
    waiting = []
    for kind in map(_kind_of, definitions):
        if objects := await client.list_raw(kind):
            report(f"{kind.resource}: waiting until {len(objects)} objects are gone")
            waiting.append(kind)
        for one in objects:
            is_inside = one["metadata"].get("namespace", "") in namespaces
            await _delete(client, one, "Orphan" if is_inside else "Background", kind)
    for kind in waiting:
        await _until(partial(_is_empty, client, kind))
    for definition in definitions:
        await _delete(client, definition, "Background")
    for definition in definitions:
        await _until(partial(_is_gone, client, definition))
        report(f"{_label(definition)} deleted")


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    while not await holds():  # noqa: ASYNC110 - it is the API server that is polled
        await anyio.sleep(_POLL_SECONDS)


async def _is_gone(client: Client, manifest: Manifest) -> bool:
    return await _read(client, manifest) is None


async def _is_empty(client: Client, kind: Kind) -> bool:
    return not await client.list_raw(kind, limit=1)


async def present_definitions(client: Client) -> list[Manifest]:
    """Return the definitions that the cluster has of our kinds."""
    found = []
    for definition in crd_manifests():
        with suppress(NotFound):
            found.append(await client.get_raw(DEFINITION, definition["metadata"]["name"]))
    return found


async def stored_objects(client: Client) -> dict[str, int]:
    """Return the number of objects of each kind that `purge` removes."""
    return {
        str(one["metadata"]["name"]): len(await client.list_raw(_kind_of(one)))
        for one in await present_definitions(client)
    }


async def _read(client: Client, manifest: Manifest) -> Manifest | None:
    meta = manifest["metadata"]
    try:
        return await client.get_raw(_kind(manifest), meta["name"], meta.get("namespace", ""))
    except NotFound:
        return None


async def _delete(client: Client, manifest: Manifest, propagation: str, kind: Kind | None = None) -> None:
    meta = manifest["metadata"]
    options = DeleteOptions(uid=meta["uid"], propagation=propagation)
    try:
        await client.delete(kind or _kind(manifest), meta["name"], meta.get("namespace", ""), options)
    except (NotFound, Conflict):  # gone, or another object of its name
        return


def _kind(manifest: Manifest) -> Kind:
    return KINDS[manifest["apiVersion"], manifest["kind"]]


def _kind_of(definition: Manifest) -> Kind:
    """Return the kind of a definition in the version in which it is stored."""
    spec = definition["spec"]
    version = next(one["name"] for one in spec["versions"] if one["storage"])
    names, namespaced = spec["names"], spec["scope"] == "Namespaced"
    return custom_kind(spec["group"], version, names["kind"], names["plural"], namespaced=namespaced)


def _is_ours(manifest: Manifest) -> bool:
    labels = manifest["metadata"].get("labels", {})
    return bool(labels.get(_NAME) == "volcanoio")


def _helm_release(manifest: Manifest) -> str:
    meta = manifest["metadata"]
    is_helms = meta.get("labels", {}).get(_MANAGED_BY) == "Helm"
    return str(meta.get("annotations", {}).get("meta.helm.sh/release-name", "")) if is_helms else ""


def _label(manifest: Manifest) -> str:
    meta = manifest["metadata"]
    where = f"{meta['namespace']}/" if "namespace" in meta else ""
    return f"{manifest['kind'].lower()} {where}{meta['name']}"
