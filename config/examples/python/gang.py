"""Run three pods that start together, and print what they wrote."""

from volcanoio.client import Client

with Client() as client:
    job = client.submit(
        name="hello",
        image="busybox",
        command="echo hello from pod $VC_TASK_INDEX; sleep 5",
        replicas=3,
        resources={"cpu": "500m", "memory": "64Mi"},
    )
    for line in job.logs(follow=True):
        print(line)
    print(job.result())
