"""The batch/v1 Job controller: pods that run to completion (Kubernetes: pkg/controller/job, ttlafterfinished).

`job_status` evaluates the pods of a Job, `controller` plans its writes. Start with `controller`.
"""
