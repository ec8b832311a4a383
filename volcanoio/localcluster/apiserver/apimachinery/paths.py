"""Parsing of URL paths into resource, object and subresource."""

from __future__ import annotations

from typing import NamedTuple

from volcanoio.localcluster.apiserver.apimachinery.errors import NoPageError, no_such_path, no_such_subresource
from volcanoio.localcluster.apiserver.apimachinery.objects import Ref
from volcanoio.localcluster.apiserver.apimachinery.resources import Resource
from volcanoio.localcluster.apiserver.apimachinery.served_resources import Registry


class Target(NamedTuple):
    """Resource, object and subresource of a path.

    Name and subresource are empty for a collection, namespace for all or cluster scope.
    """

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def ref(self) -> Ref:
        """Where the object is stored."""
        return Ref(self.resource.name, self.namespace, self.name)


def parse(path: str, registry: Registry) -> Target:
    """Parse a path; raises ApiError 404 when nothing is served there."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    elif parts[0] == "api" or (parts[0] == "apis" and len(parts) > 1 and registry.has_group(parts[1])):
        raise no_such_path()
    else:
        raise NoPageError
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES):
        namespace, rest = rest[1], rest[2:]
    resource = registry.find(group, version, rest[0])
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise no_such_path() if registry.has_group(group, builtin=True) else NoPageError
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and subresource not in resource.subresources:
        raise no_such_path() if resource.custom is None else no_such_subresource(resource, name, subresource)
    if name and resource.namespaced and not namespace:
        raise no_such_path()
    return Target(resource, namespace, name, subresource)


_NAMESPACE_SUBRESOURCES = ("status", "finalize")
