"""Documents that describe what is served: discovery, OpenAPI v2 and v3.

They are built from `apimachinery.served_resources` and encoded once per revision of it. Start with `discovery`.
"""
