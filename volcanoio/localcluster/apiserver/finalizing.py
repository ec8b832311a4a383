"""`namespaces/X/finalize`: changes `spec.finalizers` alone, and lets an emptied namespace go.

Kubernetes: pkg/registry/core/namespace.
"""

from __future__ import annotations

from typing import Final

from volcanoio.engine.admission.dnsnames import qualified_rule
from volcanoio.engine.admission.fielderrors import FieldError, invalid
from volcanoio.localcluster.apiserver import bodies, errors
from volcanoio.localcluster.apiserver.api import ApiRequest
from volcanoio.localcluster.apiserver.comparison import check_versions, is_finished
from volcanoio.localcluster.apiserver.core import Core
from volcanoio.localcluster.apiserver.objects import encode
from volcanoio.localcluster.apiserver.options import dry_run
from volcanoio.localcluster.apiserver.paths import Target

_STANDARD: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


def finalize_namespace(core: Core, target: Target, request: ApiRequest) -> bytes:
    """The namespace with the finalizers the body states; raises ApiError."""
    stated, body = bodies.read_object(request, target.resource)
    bodies.check_fields(stated, body, target.resource, "Ignore")
    stored = core.store.get(target.ref)
    if stored is None:
        raise errors.not_found(target.resource, target.name)
    if stated["metadata"].get("name", target.name) != target.name:
        name = stated["metadata"]["name"]
        text = f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        raise errors.bad_request(text)
    check_versions(target, stored, stated["metadata"], required=False)
    finalizers = (stated.get("spec") or {}).get("finalizers") or []
    if found := _finalizer_errors(finalizers):
        raise errors.invalid(target.resource, target.name, found)
    obj = stored.decode()
    spec = {key: value for key, value in (obj.get("spec") or {}).items() if key != "finalizers"}
    obj["spec"] = spec | ({"finalizers": finalizers} if finalizers else {})
    if dry_run(request) or obj == stored.decode():
        return encode(obj)
    core.check_writable()
    if stored.deleting and is_finished(target.resource, obj):
        return core.store.remove(target.ref, obj).data
    return core.store.put(target.ref, obj).data


def _finalizer_errors(finalizers: list[str]) -> list[FieldError]:
    found: list[FieldError] = []
    for at, name in enumerate(finalizers):
        path = f"spec.finalizers[{at}]"
        if rule := qualified_rule(str(name)):
            found.append(invalid(path, name, rule))
        elif "/" not in name and name not in _STANDARD:
            rule = "name is neither a standard finalizer name nor is it fully qualified"
            found.append(invalid(path, name, rule))
    return found
