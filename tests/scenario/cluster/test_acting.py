"""Commands that act on existing jobs and queues: what they print, what happens, and exit codes."""

from __future__ import annotations

from tests.commands import Ended, run_aside
from tests.scenario.cluster.harness import Cluster, cluster, job_manifest
from volcanoio.model import kinds
from volcanoio.model.batch import Job


async def _run(c: Cluster, *words: str, code: int = 0) -> Ended:
    environment = {"KUBECONFIG": str(c.local.kubeconfig), "PATH": "", "HOME": "/nonexistent"}
    done = await run_aside(*words, environment=environment)
    assert done.code == code, done.out + done.err
    return done


async def test_jobs_are_suspended_resumed_restarted_and_cancelled() -> None:
    async with cluster(speed=0.2, nodes=1) as c:
        await c.create(job_manifest("train", run="never"))
        await c.create(job_manifest("tune", run="never"))
        await c.job("train", "Running")
        await c.job("tune", "Running")
        done = await _run(c, "suspend", "train", "trian", "tune", code=2)
        assert done.out == "job train is being suspended; it was Running\njob tune is being suspended; it was Running\n"
        assert done.err == 'volcanoio: there is no job "trian" in namespace default; did you mean train?\n'
        await c.job("train", "Aborted")
        assert (await _run(c, "suspend", "train")).out == "job train is Aborted; nothing changed\n"
        assert (await _run(c, "restart", "train", code=1)).err == (
            "volcanoio: job train is Aborted and cannot be restarted: it is suspended; start it with: "
            "volcanoio resume train\n"
        )
        assert (await _run(c, "resume", "train")).out == "job train is being resumed; it was Aborted\n"
        before = await c.job("train", "Running")
        assert (await _run(c, "restart", "train")).out == "job train is being restarted; it was Running\n"
        await c.until(kinds.JOB, Job, lambda jobs: jobs["train"].status.version > before.status.version, "restarted")
        await c.job("train", "Running")
        assert (await _run(c, "cancel", "--keep", "train")).out == "job train is being terminated; it was Running\n"
        await c.job("train", "Terminated")
        assert "a job that has ended does not start again" in (await _run(c, "resume", "train", code=1)).err
        assert (await _run(c, "cancel", "train", "tune")).out.splitlines() == [
            "job train is cancelled: it and its pods are deleted; it was Terminated",
            "job tune is cancelled: it and its pods are deleted; it was Aborted",
        ]
        await c.until(kinds.JOB, Job, lambda jobs: not jobs, "both gone")


async def test_queues_are_created_changed_closed_opened_and_deleted() -> None:
    async with cluster(nodes=1) as c:
        created = ("--weight", "3", "--capability", "cpu=4,memory=8Gi", "--deserved", "cpu=2", "--no-reclaimable")
        assert (await _run(c, "queue", "create", "ml", *created)).out == "queue ml is created\n"
        queue = await c.queue("ml", lambda q: q.status.state == "Open", "Open")
        assert (queue.spec.weight, queue.spec.capability, queue.spec.reclaimable) == (
            3,
            {"cpu": "4", "memory": "8Gi"},
            False,
        )
        assert queue.spec.deserved == {"cpu": "2"}
        assert (await _run(c, "queue", "set", "ml", "--capability", "cpu=6,memory-")).out == "queue ml is changed\n"
        await c.queue("ml", lambda q: q.spec.capability == {"cpu": "6"}, "memory is unlimited")
        unchanged = "queue ml has these values already; nothing changed\n"
        assert (await _run(c, "queue", "set", "ml", "--weight", "3")).out == unchanged
        assert "give one of --weight, --parent" in (await _run(c, "queue", "set", "ml", code=2)).err
        assert (await _run(c, "queue", "close", "ml")).out == "queue ml is being closed; it was Open\n"
        await c.queue("ml", lambda q: q.status.state == "Closed", "Closed")
        assert (await _run(c, "queue", "close", "ml")).out == "queue ml is Closed; nothing changed\n"
        assert (await _run(c, "queue", "open", "ml")).out == "queue ml is being opened; it was Closed\n"
        await c.queue("ml", lambda q: q.status.state == "Open", "Open")
        refused = await _run(c, "queue", "delete", "ml", "default", code=3)
        assert refused.out == "queue ml is deleted\n"
        assert "`default` queue can not be deleted" in refused.err
        assert "cannot be closed" in (await _run(c, "queue", "close", "root", code=2)).err
        assert (
            "write for instance cpu=4,memory=8Gi"
            in (await _run(c, "queue", "create", "q", "--capability", "lots", code=2)).err
        )


async def test_a_cluster_that_cannot_be_reached_is_exit_code_5() -> None:
    done = await run_aside("suspend", "j", environment={"KUBECONFIG": "/nonexistent", "PATH": "", "HOME": "/"})
    assert (done.code, done.out) == (5, "")
    assert "no kubeconfig at /nonexistent" in done.err
