"""Exceptions of the client; all of them are ClientErrors, and each message contains the next step."""

# ruff: noqa: N818 - `except Unschedulable` reads as the condition it is

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from volcanoio.kube.decoding import UndecodableError
from volcanoio.kube.errors import ApiError, NotFound, StatusCause, Unauthorized, error_of
from volcanoio.kube.transport import NoCredentials, StreamRefused, TransportError


class ServerWarning(UserWarning):
    """A warning of the API server, which has done what was asked, such as about an unknown field of a manifest."""


class ClientError(Exception):
    """Base of all errors that the client raises."""


class InvalidJob(ClientError, ValueError):
    """An argument cannot be made into a Job; nothing was sent."""


class Unreachable(ClientError):
    """There is no kubeconfig to use, or the API server at its address does not answer."""


class Refused(ClientError):
    """The API server refused a request; the message begins with its own sentence.

    `code` is the HTTP status, `reason` Kubernetes' word for it (such as Forbidden or Invalid), `message` the server's
    sentence, and `causes` are the fields that it names.
    """

    def __init__(self, error: ApiError, hint: str = "") -> None:
        super().__init__(f"{error.message}{f'; {hint}' if hint else ''}")
        self.code = error.code
        self.reason = error.reason
        self.message = error.message
        self.causes: tuple[StatusCause, ...] = error.details.causes


class JobNotFound(Refused):
    """No job of that name exists, or not any more."""


class JobFailed(ClientError):
    """The job ended without success.

    `pod` is the first pod that failed ("" if none is left), `exit_code` that of its container, `log` its last lines.
    `phase` and `message` are the job's.
    """

    def __init__(  # noqa: PLR0913 - the facts that a caller wants
        self,
        job: str,
        phase: str,
        *,
        message: str = "",
        pod: str = "",
        exit_code: int | None = None,
        reason: str = "",
        log: tuple[str, ...] = (),
    ) -> None:
        text = f"job {job} is {phase}{f': {message}' if message else ''}"
        if pod:
            code = "" if exit_code is None else f" with exit code {exit_code}"
            text += f"; pod {pod} failed{code}{f' ({reason})' if reason else ''}"
        if log:
            text += "; the end of its log:\n" + "\n".join(f"    {line}" for line in log)
        super().__init__(text)
        self.job, self.phase, self.message = job, phase, message
        self.pod, self.exit_code, self.reason, self.log = pod, exit_code, reason, log


class Timeout(ClientError, TimeoutError):
    """The job did not reach the state that was waited for in time; it keeps running."""


class Unschedulable(Timeout):
    """The job found no place in time; it keeps waiting.

    `code` is one of the reason codes of `volcanoio why`, `message` the scheduler's sentence.
    """

    def __init__(self, job: str, seconds: float, code: str, message: str) -> None:
        said = f": {message}" if message else ""
        step = "job.why() lists what would help, and job.cancel() removes it"
        super().__init__(f"job {job} was not placed within {seconds:g} s ({code}){said}; it keeps waiting: {step}")
        self.code, self.message = code, message


@contextmanager
def reported(server: str, job: str = "") -> Iterator[None]:
    """Convert errors of requests to ClientErrors; `job` is the name of the job they are about."""
    try:
        yield
    except NotFound as error:
        if error.is_unserved:
            raise Refused(error, "are Volcano's definitions installed? see: volcanoio doctor") from None
        if job and error.details.name == job:
            raise JobNotFound(error, "list the jobs with client.jobs()") from None
        raise Refused(error) from None
    except Unauthorized as error:
        raise Refused(error, f"{server} does not accept the credentials of the kubeconfig; use a newer one") from None
    except ApiError as error:
        raise Refused(error) from None
    except StreamRefused as refused:
        raise Refused(error_of(refused.response)) from None
    except UndecodableError as error:
        raise ClientError(f"an object cannot be read: {error}; correct or delete it with kubectl") from None
    except NoCredentials as error:
        raise Unreachable(f"no credentials for {server}: {error}") from None
    except TransportError as error:
        step = "check that it runs and that KUBECONFIG names the right cluster, or start one here: Client(local=True)"
        raise Unreachable(f"cannot reach the API server at {server}: {error}; {step}") from None
