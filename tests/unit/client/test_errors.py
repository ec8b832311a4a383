"""Errors of the API server as errors of the client: each names the next step."""

from __future__ import annotations

import pytest

from volcanoio.client.errors import ClientError, JobNotFound, Refused, Unreachable, reported
from volcanoio.kube.decoding import UndecodableError
from volcanoio.kube.errors import Forbidden, NotFound, StatusDetails, Unauthorized
from volcanoio.kube.transport import NoCredentials, TransportError

UNSERVED = "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (NotFound(404, "NotFound", 'jobs "a" not found', StatusDetails(name="a")), JobNotFound, "list the jobs with"),
        (NotFound(404, "NotFound", 'namespaces "b" not found', StatusDetails(name="b")), Refused, 'namespaces "b"'),
        (NotFound(404, "NotFound", UNSERVED), Refused, "are Volcano's definitions installed"),
        (Forbidden(403, "Forbidden", "no quota left"), Refused, "no quota left"),
        (Unauthorized(401, "Unauthorized", "Unauthorized"), Refused, "https://there does not accept the credentials"),
        (TransportError("refused"), Unreachable, "cannot reach the API server at https://there: refused; check that"),
        (NoCredentials("expired"), Unreachable, "no credentials for https://there: expired"),
        (UndecodableError("spec.tasks"), ClientError, "correct or delete it with kubectl"),
    ],
)
def test_an_error_has_the_servers_sentence_and_the_next_step(
    error: Exception, kind: type[ClientError], message: str
) -> None:
    with pytest.raises(ClientError, match=message) as raised, reported("https://there", "a"):
        raise error
    assert type(raised.value) is kind
