"""What one spec produces: a job's pods, PodGroup, volume claims and the objects of its plugins.

The lowest layer of the Job controller: imports nothing else of it. Start with `manifests`, which builds objects, and
`summary`, which compares them with the pods that exist.
"""
