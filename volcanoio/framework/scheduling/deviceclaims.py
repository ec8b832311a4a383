"""Claims of devices (dynamic resource allocation), as far as they matter for scheduling."""

import msgspec


class DeviceClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of devices that a pod names, without its own name unless it matters.

    `error` is why no node is feasible at all. `key` (`namespace/name`) is "" for a claim that was made for the pod from
    a template and is not allocated yet: pods with such claims of equal content can have the same shape. `devices` is
    the JSON of the claim's `spec.devices`, without the parameters for drivers.
    """

    error: str = ""
    key: str = ""
    devices: bytes = b""
