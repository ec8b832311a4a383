"""Clients of other users, and reviews of tokens."""

from __future__ import annotations

import json
import ssl
import urllib.request
from urllib.error import HTTPError

from tests.contract.support import Answer, Cluster

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def without_credentials(cluster: Cluster, method: str, path: str, **headers: str) -> Answer:
    """Send a request without the credentials of the kubeconfig."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    body = b"{}" if method in {"POST", "PUT", "PATCH"} else None
    sent = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(cluster.url + path, body, sent, method=method)
    try:
        with urllib.request.urlopen(request, context=context) as response:
            return Answer(response.status, response.read(), dict(response.headers))
    except HTTPError as error:
        with error:
            return Answer(error.code, json.loads(error.read()), dict(error.headers))
