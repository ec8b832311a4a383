"""The status of a job: counts, phase rules and conditions, and when they are written. Imports `state` and `pods`.

Start with `phases`. `writes` decides whether a change is worth a status write; `killed_pods` are those a phase deletes.
"""
