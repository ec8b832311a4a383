"""Types that every part of the API server shares: requests, objects, resources, errors and selectors.

It imports the model, `schema` (a custom resource holds its compiled schema) and the `streams` interface; never the
registry, admission or HTTP. Start with `resources` and `objects`, then `request`.
"""
