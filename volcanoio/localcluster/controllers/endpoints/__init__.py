"""Endpoints and EndpointSlices of Services with a selector (Kubernetes: pkg/controller/endpoint, endpointslice)."""
