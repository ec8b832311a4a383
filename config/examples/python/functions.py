"""Run a Python function for each of several rows, and collect what it returned."""

from volcanoio.client import Client


def crunch(row: dict[str, float]) -> float:
    """Return the area of one rectangle; the function runs in a pod."""
    return row["width"] * row["height"]


with Client() as client:
    rows = [{"width": 2.0, "height": 3.0}, {"width": 4.0, "height": 5.0}]
    job = client.map(crunch, rows=rows, image="python:3.11-slim")
    print(job.result().values)
