"""Dynamic resources (resource.k8s.io/v1): devices that drivers publish and pods claim, and the selectors of devices.

`objects` has the kinds; `selectors` evaluates the CEL expressions of classes and claims. The package imports
`volcanoio.model` only.
"""
