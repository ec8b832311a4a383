"""Answers as YAML, for a client that accepts nothing else."""

from __future__ import annotations

import msgspec
import yaml

from volcanoio.localcluster.apiserver.api import ApiRequest, ApiResponse

TYPE = "application/yaml"


def wants_yaml(request: ApiRequest) -> bool:
    """Whether the client's first choice is YAML."""
    return request.headers.get("accept", "").startswith(TYPE)


def in_json(request: ApiRequest) -> ApiRequest:
    """The same request for JSON."""
    return msgspec.structs.replace(request, headers={**request.headers, "accept": "application/json"})


def in_yaml(answer: ApiResponse) -> ApiResponse:
    """The answer as YAML; one that is not JSON stays what it is."""
    if answer.content_type != "application/json":
        return answer
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    body = yaml.dump(msgspec.json.decode(answer.body), Dumper=dumper, allow_unicode=True)
    return msgspec.structs.replace(answer, body=body.encode(), content_type=TYPE)
