"""Cluster state from files: any stream of YAML or JSON documents, as `kubectl get ... -o yaml` prints them.

Lists are expanded, and fields that the API server would have added to a manifest (namespace, uid) are set. Quantities
are checked here, because the scheduler computes with them later. Objects of unused kinds are counted and skipped.
Errors contain the file and the object.

NodeMetrics (`kubectl get nodemetrics -o yaml`, metrics.k8s.io) become the facts that the source `node-metrics` would
have published. Their usage covers half a minute where Volcano's is the average of ten; percentages are of the node's
capacity.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec

from volcanoio.engine.scheduling.cluster.memory import MEMORY_KIND, SchedulerMemory, as_decided
from volcanoio.framework.scheduling.sources import NODE_METRICS, NodeUsage
from volcanoio.framework.scheduling_events import FactsSaid
from volcanoio.kube.decoding import without_nulls
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject
from volcanoio.model.batch import Job
from volcanoio.model.core import Node, Pod, ResourceList, ResourceQuota, ResourceRequirements
from volcanoio.model.kinds import Kind
from volcanoio.model.manifests import ManifestError, load_manifests
from volcanoio.model.quantity import QuantityError, milli, parse, value
from volcanoio.model.scheduling import PodGroup, Queue
from volcanoio.model.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim


def check_quantities(obj: ApiObject) -> None:
    """Raise QuantityError with the field of the first quantity that is invalid or below zero."""
    for path, amounts in _resource_lists(obj):
        for name, text in amounts.items():
            try:
                negative = parse(str(text)) < 0
            except QuantityError as error:
                raise QuantityError(f"{path}[{name}]: {error}") from None
            if negative:
                raise QuantityError(f"{path}[{name}]: {text} is below zero; write an amount of zero or more")


def _resource_lists(obj: ApiObject) -> Iterator[tuple[str, ResourceList]]:
    """Yield the resource lists of an object that scheduling reads, with their fields."""
    match obj:
        case Pod():
            yield from _pod_resource_lists(obj)
        case Node(status=status):
            yield "status.allocatable", status.allocatable
            yield "status.capacity", status.capacity
        case PodGroup(spec=wanted):
            yield "spec.minResources", wanted.min_resources or {}
        case Queue(spec=shares):
            yield "spec.capability", shares.capability
            yield "spec.deserved", shares.deserved
            yield "spec.guarantee.resource", shares.guarantee.resource
        case ResourceQuota(spec=quota, status=counted):
            yield "spec.hard", quota.hard
            yield "status.hard", counted.hard
            yield "status.used", counted.used
        case PersistentVolumeClaim(spec=claim):
            yield "spec.resources.requests", claim.resources.requests
        case PersistentVolume(spec=volume):
            yield "spec.capacity", volume.capacity
        case CSIStorageCapacity(capacity=free, maximum_volume_size=largest):
            given = {"capacity": free, "maximumVolumeSize": largest}
            yield "CSIStorageCapacity", {name: text for name, text in given.items() if text is not None}
        case _:
            pass


def _pod_resource_lists(pod: Pod) -> Iterator[tuple[str, ResourceList]]:
    spec = pod.spec
    for field_name, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            yield from _requirements(f"spec.{field_name}[{index}].resources", container.resources)
    yield "spec.overhead", spec.overhead
    if spec.resources is not None:
        yield from _requirements("spec.resources", spec.resources)


def _requirements(field: str, resources: ResourceRequirements) -> Iterator[tuple[str, ResourceList]]:
    yield f"{field}.requests", resources.requests
    yield f"{field}.limits", resources.limits


GROUP, KIND = "metrics.k8s.io", "NodeMetrics"


class _NodeMetricsMetadata(msgspec.Struct):
    name: str


class _NodeMetricsUsage(msgspec.Struct):
    cpu: str
    memory: str


class NodeMetrics(msgspec.Struct):
    """The fields of a NodeMetrics object that are read."""

    metadata: _NodeMetricsMetadata
    usage: _NodeMetricsUsage

    @property
    def cpu(self) -> int:
        """Usage in millicores."""
        return milli(self.usage.cpu)

    @property
    def memory(self) -> int:
        """Usage in bytes."""
        return value(self.usage.memory)


def decode_node_metrics(item: Any) -> NodeMetrics:
    """Decode a NodeMetrics object from a mapping or JSON. Raises ValidationError and QuantityError."""
    if isinstance(item, bytes | msgspec.Raw):
        found = msgspec.json.decode(item, type=NodeMetrics)
    else:
        found = msgspec.convert(item, NodeMetrics)
    for name in ("cpu", "memory"):
        try:
            getattr(found, name)
        except QuantityError as error:
            raise QuantityError(f"usage[{name}]: {error}") from None
    return found


def usage_facts(usage: Iterable[NodeMetrics], nodes: Iterable[Node], *, now: float, every: float) -> FactsSaid | None:
    """Return the event with the current usage of nodes; None without metrics."""
    by_name = {each.metadata.name: each for each in usage}
    facts = {}
    for node in nodes:
        found = by_name.get(node.metadata.name)
        whole = {**node.status.allocatable, **node.status.capacity}
        cpu, memory = milli(whole.get("cpu", 0)), value(whole.get("memory", 0))
        if found is not None and cpu and memory:
            busy = NodeUsage(cpu=100 * found.cpu / cpu, memory=100 * found.memory / memory, at=now, every=every)
            facts[node.metadata.name] = msgspec.to_builtins(busy)
    return FactsSaid(at=now, source=NODE_METRICS, facts=facts, whole=True) if facts else None


SUFFIXES = (".yaml", ".yml", ".json")
"""Suffixes of the files in a directory that are read."""
_JSON = json.JSONDecoder()
_TOKEN = re.compile(r"\S")


class StateError(ValueError):
    """The state cannot be used; the message is one line: the file, the object, the rule and the next step."""


class _Header(msgspec.Struct, rename="camel"):
    """The fields that identify an object's kind; `items` are those of a List."""

    api_version: str = ""
    kind: str = ""
    items: list[msgspec.Raw] | None = None


@dataclass
class State:
    """The state in files: `objects` in their order, the `usage` of nodes, and what was not read.

    `ignored` counts objects by kind that are not used, `passed` contains files that were skipped. `memory` is that of
    the running scheduler whose snapshot this is; then its decisions that were in flight are in the objects. `jobs` are
    not read by the scheduler: they show which pods are going to be created.
    """

    objects: list[ApiObject] = field(default_factory=list)
    usage: list[NodeMetrics] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    passed: list[Path] = field(default_factory=list)
    memory: SchedulerMemory | None = None
    jobs: list[Job] = field(default_factory=list)


def read_state(files: Sequence[Path | tuple[str, bytes]], reads: Collection[Kind]) -> State:
    """Read all objects of the kinds `reads` in these files and directories.

    A pair is a source's name and its content. Raises StateError.
    """
    state = State()
    seen: dict[tuple[str, str], str] = {}
    for source, content in _contents(files, state.passed):
        for where, header, item in _items(content, source):
            if header.kind == KIND and header.api_version.startswith(f"{GROUP}/"):
                state.usage.append(_usage(item, where))
                continue
            if header.kind == MEMORY_KIND:
                state.memory = _memory(item, where)
                continue
            kind = kinds.named(header.api_version, header.kind)
            if kind is kinds.JOB:
                state.jobs.append(cast("Job", _object(kind, item, where)))
                continue
            if kind is None or kind not in reads:
                state.ignored[header.kind] += 1
                continue
            obj = _object(kind, item, where)
            key = (kind.resource, obj.metadata.key)
            title = f"{kind.kind} {obj.metadata.key}"
            if (first := seen.get(key)) is not None:
                raise StateError(f"{where}: {title} is in the state twice, first in {first}; remove one of them")
            seen[key] = where
            try:
                check_quantities(obj)
            except QuantityError as error:
                raise StateError(f"{where}: {title}: {error}") from None
            state.objects.append(obj)
    if state.memory is not None:
        state.objects = as_decided(state.objects, state.memory)
    return state


def read_configuration(files: Sequence[Path | tuple[str, bytes]]) -> str | None:
    """Return the configuration of the scheduler whose snapshot one of these files is; None if none is a snapshot.

    Raises StateError.
    """
    for source, content in _contents(files, []):
        if MEMORY_KIND.encode() in content[:200]:
            where, header, item = next(_items(content, source))
            if header.kind == MEMORY_KIND:
                return _memory(item, where).configuration or None
    return None


def _memory(item: Any, where: str) -> SchedulerMemory:
    """Return the memory of a running scheduler."""
    try:
        if isinstance(item, bytes | msgspec.Raw):
            return msgspec.json.decode(item, type=SchedulerMemory)
        return msgspec.convert(item, SchedulerMemory)
    except msgspec.ValidationError as error:
        msg = f"{where}: {MEMORY_KIND}: {_validation_text(error)}; save the state again with this version"
        raise StateError(msg) from None


def _contents(files: Sequence[Path | tuple[str, bytes]], passed: list[Path]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every file."""
    for file in files:
        if isinstance(file, tuple):
            yield file
            continue
        try:
            inside = sorted(file.iterdir()) if file.is_dir() else [file]
        except OSError as error:
            raise _unreadable(file, error) from None
        if inside != [file]:
            passed += [path for path in inside if path.is_file() and not path.name.endswith(SUFFIXES)]
            inside = [path for path in inside if path.is_file() and path.name.endswith(SUFFIXES)]
            if not inside:
                msg = f"{file}: no file in it ends with {', '.join(SUFFIXES)}; give a directory of such files"
                raise StateError(msg)
        for path in inside:
            try:
                yield str(path), path.read_bytes()
            except OSError as error:
                raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> StateError:
    return StateError(f"{path}: {error.strerror}; give the path of a YAML or JSON file, of a directory of such, or -")


def _items(content: bytes, source: str) -> Iterator[tuple[str, _Header, Any]]:
    """Yield every object of a file: its position, its kind, and the object as a mapping or JSON."""
    documents: Iterable[Any]
    try:
        if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            documents = _json_documents(content, source)
        else:
            documents = load_manifests(content.decode("utf-8-sig"), source)
    except ManifestError as error:
        raise StateError(str(error)) from None
    except UnicodeDecodeError:
        raise StateError(f"{source}: not UTF-8 text; give YAML or JSON") from None
    for number, document in enumerate(documents, start=1):
        header = _header(document, f"{source}, object {number}")
        if header.items is None or not header.kind.endswith("List"):
            yield f"{source}, object {number}", header, document
            continue
        typed = header if header.kind != "List" else None
        for index, item in enumerate(header.items, start=1):
            where = f"{source}, object {number}, item {index}"
            yield where, _header(item, where, typed), item


def _header(item: Any, where: str, of: _Header | None = None) -> _Header:
    """Return an object's kind; items of a typed list (`of`, such as a PodList) may omit it. Raises StateError."""
    try:
        header = msgspec.json.decode(item, type=_Header) if isinstance(item, bytes | msgspec.Raw) else _mapping(item)
    except msgspec.ValidationError as error:
        msg = f"{where}: {_validation_text(error)}; write an object with apiVersion, kind and metadata"
        raise StateError(msg) from None
    if of is not None:
        header.api_version = header.api_version or of.api_version
        header.kind = header.kind or of.kind.removesuffix("List")
    if not header.api_version or not header.kind:
        missing = "kind" if header.api_version else "apiVersion" if header.kind else "apiVersion and kind"
        raise StateError(f"{where}: an object without {missing}; write both apiVersion and kind at its top")
    return header


def _mapping(item: Any) -> _Header:
    if (
        isinstance(item, dict)
        and isinstance(items := item.get("items"), list)
        and str(item.get("kind")).endswith("List")
    ):
        header = msgspec.convert({**item, "items": None}, _Header)
        header.items = items
        return header
    return msgspec.convert({**item, "items": None} if isinstance(item, dict) else item, _Header)


def _json_documents(content: bytes, source: str) -> list[Any]:
    """Return the documents of a JSON text: one, or several in sequence."""
    try:
        return [msgspec.json.decode(content.removeprefix(b"\xef\xbb\xbf"), type=msgspec.Raw)]
    except msgspec.DecodeError:
        pass  # several documents, or a syntax error: the YAML reader reports the position
    text = content.decode("utf-8-sig")
    documents, at = [], 0
    while (start := _TOKEN.search(text, at)) is not None:
        try:
            document, at = _JSON.raw_decode(text, start.start())
        except json.JSONDecodeError as error:
            msg = f"{source}, line {error.lineno}, column {error.colno}: {error.msg}; fix the JSON there"
            raise StateError(msg) from None
        documents.append(document)
    return documents


def _object(kind: Kind, item: Any, where: str) -> ApiObject:
    """Return one object as its Struct, with the fields that an API server adds."""
    try:
        obj = _decoded(kind, item)
    except msgspec.ValidationError as error:
        raise StateError(
            f"{where}: {kind.kind} {_name(item)}: {_validation_text(error)}; write it as Kubernetes documents the field"
        ) from None
    meta = obj.metadata
    if not meta.name:
        raise StateError(f"{where}: a {kind.kind} without metadata.name; name it")
    namespace = (meta.namespace or "default") if kind.namespaced else ""
    uid = meta.uid or f"{kind.resource}/{namespace}/{meta.name}"
    if (namespace, uid) != (meta.namespace, meta.uid):
        obj = msgspec.structs.replace(obj, metadata=msgspec.structs.replace(meta, namespace=namespace, uid=uid))
    return obj


def _usage(item: Any, where: str) -> NodeMetrics:
    """Return a node's usage."""
    try:
        return decode_node_metrics(item)
    except (msgspec.ValidationError, QuantityError) as error:
        problem = _validation_text(error) if isinstance(error, msgspec.ValidationError) else str(error)
        msg = f"{where}: {KIND} {_name(item)}: {problem}; write it as metrics.k8s.io documents the field"
        raise StateError(msg) from None


def _decoded(kind: Kind, item: Any) -> ApiObject:
    raw = isinstance(item, bytes | msgspec.Raw)
    try:
        return kind.decode(item) if raw else msgspec.convert(item, kind.type)
    except msgspec.ValidationError:  # a null means absent, but removing nulls takes time
        plain = msgspec.json.decode(item) if raw else item
        return msgspec.convert(without_nulls(plain), kind.type)


def _name(item: Any) -> str:
    """Return the `namespace/name` of an invalid object, as far as it has one."""
    plain = msgspec.json.decode(item) if isinstance(item, bytes | msgspec.Raw) else item
    meta = plain.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    return "/".join(str(part) for part in (meta.get("namespace"), meta.get("name")) if part) or "without name"


def _validation_text(error: msgspec.ValidationError) -> str:
    """Return the field and the error of a failed validation."""
    problem, _, path = str(error).partition(" - at ")
    name = path.strip("`").removeprefix("$").removeprefix(".")
    return f"{name}: {problem[0].lower()}{problem[1:]}" if name else f"{problem[0].lower()}{problem[1:]}"
