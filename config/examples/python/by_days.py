"""Run a program for each day of a month in one job, with more memory for days that need it, and report the end."""

from volcanoio.client import Client, JobFailed


def notify(text: str) -> None:
    """Replace this by a mail, or a message to your chat."""
    print(text)


with Client() as client:
    job = client.map(
        "python backtest.py --day $VC_SHARD",
        days=("2026-01-01", "2026-01-31"),
        name="backtest",
        image="backtest:1.4",
        resources={"cpu": 1, "memory": "1Gi"},
        limits={"memory": "1Gi"},
        lifecycle={"oom_scale_up": {"factor": 2, "cap": "16Gi"}},
    )
    try:
        result = job.result()
    except JobFailed as error:
        notify(f"{job.name} failed: {error}")
    else:
        notify(f"{job.name}: {result.succeeded} days done")
