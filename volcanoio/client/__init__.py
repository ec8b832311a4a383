"""The Python API for people who submit jobs: `Client` and `AsyncClient`, which have the same methods.

It may import what compose may; commands and the web page may import it. `client` and `job` have the methods, `blocking`
makes the synchronous classes of them, `specification` and `shards` make manifests of arguments.
"""

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
