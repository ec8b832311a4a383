"""The Python API for people who submit jobs: `Client` and `AsyncClient`, which have the same methods.

It may import what compose may; commands and the web page may import it. `client` and `job` have the methods, `blocking`
makes the synchronous classes of them, `specification` and `shards` make manifests of arguments.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from volcanoio.client.blocking import Client, Job
    from volcanoio.client.client import AsyncClient
    from volcanoio.client.errors import (
        ClientError,
        InvalidJob,
        JobFailed,
        JobNotFound,
        Refused,
        ServerWarning,
        Timeout,
        Unreachable,
        Unschedulable,
    )
    from volcanoio.client.explanation import Reason
    from volcanoio.client.following import LogLine
    from volcanoio.client.job import AsyncJob, Result, Status
    from volcanoio.client.specification import JobOptions, TaskOptions
    from volcanoio.compose.options import LocalOptions

__all__ = [
    "AsyncClient", "AsyncJob", "Client", "ClientError", "InvalidJob", "Job", "JobFailed", "JobNotFound", "JobOptions",
    "LocalOptions", "LogLine", "Reason", "Refused", "Result", "ServerWarning", "Status", "TaskOptions", "Timeout",
    "Unreachable", "Unschedulable",
]  # fmt: skip
_MODULES = {
    "AsyncClient": "client", "AsyncJob": "job", "Client": "blocking", "Job": "blocking", "JobOptions": "specification",
    "LocalOptions": "connection", "LogLine": "following", "Reason": "explanation", "Result": "job", "Status": "job",
    "TaskOptions": "specification",
}  # fmt: skip
"""Modules that define the names of `__all__`; those of the other names are errors."""


def __getattr__(name: str) -> Any:
    """Import the module of an exported name on its first use.

    `volcanoio run` makes manifests with this package; importing the client there would take longer than the command.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value
