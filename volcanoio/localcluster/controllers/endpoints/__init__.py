"""Endpoints and EndpointSlices of Services with a selector (Kubernetes: pkg/controller/endpoint, endpointslice).

Only `controller` plans writes; the other modules are pure. Start with `slices`.
"""
