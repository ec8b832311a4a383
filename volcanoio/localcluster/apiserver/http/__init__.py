"""The HTTP side of the API server: the listener, health endpoints, and faults that tests inject.

It turns HTTP requests into `apimachinery.request.ApiRequest` and imports authn, streams and metrics; it does not know
the registry. Start with `listener`.
"""
