"""What the lists print, literally."""

from __future__ import annotations

import json
from typing import Unpack

import anyio
import anyio.lowlevel
import pytest

from tests.scenario.look.printed import Printed
from tests.scenario.look.world import pod_status, some_jobs, some_queues, world
from volcanoio.cli.connection import Cluster
from volcanoio.cli.look.describing import show_job
from volcanoio.cli.look.following import Selected, following
from volcanoio.cli.look.listing import Wanted, list_events, list_jobs, list_nodes, list_pods, list_queues
from volcanoio.cli.look.tables import fold_names, share_bar
from volcanoio.cli.terminal import UsageError
from volcanoio.kube.client import Client
from volcanoio.kube.transport import RequestOptions, Response, TransportError
from volcanoio.localcluster.apiserver.inprocess import InProcessTransport
from volcanoio.model import kinds


async def test_jobs_with_nodes_or_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    async with world() as w:
        await some_jobs(w)
        await list_jobs(w.cluster(), Wanted())
        assert capsys.readouterr().out == (
            "JOB      OWNER   PHASE     GANG   R/P/S/F   QUEUE     PRIORITY   AGE   NODELIST(REASON)\n"
            "bert     ann     Running   3/3    3/0/0/0   default   high       95s   gpu-[0-2]\n"
            "broken   -       Failed    0/1    0/0/0/0   default   -          5s    (TaskFailed)\n"
            "etl      -       Pending   0/4    0/4/0/0   ml        -          5s    (NotEnoughResources)\n"
            "sweep    -       Pending   0/2    0/0/0/0   default   -          5s    -\n"
        )
        await list_jobs(w.cluster(""), Wanted("wide", labels="team=data"))
        assert capsys.readouterr().out == (
            "NAMESPACE   JOB   OWNER   PHASE     GANG   R/P/S/F   QUEUE   PRIORITY   AGE   NODELIST(REASON)       "
            "MESSAGE\n"
            "default     etl   -       Pending   0/4    0/4/0/0   ml      -          5s    (NotEnoughResources)   "
            "2/4 tasks in gang unschedulable\n"
        )
        await list_jobs(w.cluster("team"), Wanted("wide"))
        assert capsys.readouterr().out.splitlines()[1].split() == (
            ["report-1", "CronJob/nightly", "Completed", "1/1", "0/0/1/0", "default", "-", "5s", "-"]
        )


async def test_jobs_are_selected_by_queue_phase_and_field(capsys: pytest.CaptureFixture[str]) -> None:
    async with world() as w:
        await some_jobs(w)
        await w.queue("ml")

        async def listed(wanted: Wanted, namespace: str = "default", **given: str) -> list[str]:
            await list_jobs(w.cluster(namespace), wanted, **given)
            return capsys.readouterr().out.split()

        names = Wanted("name")
        assert await listed(names, queue="ml") == ["job.batch.volcano.sh/etl"]
        assert await listed(names, phase="pending") == ["job.batch.volcano.sh/etl", "job.batch.volcano.sh/sweep"]
        assert await listed(names, owner="ann") == ["job.batch.volcano.sh/bert"]
        assert await listed(Wanted("name", fields="metadata.name=bert")) == ["job.batch.volcano.sh/bert"]
        assert len(await listed(names, "")) == 5
        await list_jobs(w.cluster(), Wanted("json"), queue="ml")
        document = json.loads(capsys.readouterr().out)
        assert document["kind"] == "List"
        assert [(item["kind"], item["spec"]["queue"]) for item in document["items"]] == [("Job", "ml")]
        await list_jobs(w.cluster("team"), Wanted(), queue="ml")
        assert tuple(capsys.readouterr()) == ("", "No resources found in namespace team\n")
        assert await listed(Wanted("name", names=("etl", "bert"))) == [
            "job.batch.volcano.sh/bert", "job.batch.volcano.sh/etl",
        ]  # fmt: skip
        await list_jobs(w.cluster(), Wanted("json", names=("etl",)))
        assert json.loads(capsys.readouterr().out)["metadata"]["name"] == "etl"


@pytest.mark.parametrize(
    ("wanted", "given", "message"),
    [
        (Wanted(names=("bert", "elt")), {}, 'there is no job "elt" in namespace default; did you mean etl?'),
        (Wanted("json", names=("elt",)), {}, 'there is no job "elt" in namespace default; did you mean etl?'),
        (Wanted(), {"queue": "mll"}, 'there is no queue "mll"; did you mean ml?'),
        (Wanted(), {"phase": "Pendin"}, '--phase: there is no phase of jobs "Pendin"; did you mean Pending?'),
    ],
)
async def test_misspelled_names_are_errors_with_close_ones(wanted: Wanted, given: dict[str, str], message: str) -> None:
    async with world() as w:
        await some_jobs(w)
        await w.queue("ml")
        with pytest.raises(UsageError) as refused:
            await list_jobs(w.cluster(), wanted, **given)
        assert str(refused.value) == message


async def test_nodes_of_many_pods_are_read_only_for_wide(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volcanoio.cli.look.listing.MOST_PODS", 2)
    async with world() as w:
        await some_jobs(w)
        await list_jobs(w.cluster(), Wanted())
        shown = capsys.readouterr()
        assert shown.out.splitlines()[1].split()[-1] == "…"
        assert shown.err == "nodes are left out, as more than 2 pods run; -o wide prints them\n"
        await list_jobs(w.cluster(), Wanted("wide"))
        assert "gpu-[0-2]" in capsys.readouterr().out


async def test_queues_as_a_tree_with_their_shares(capsys: pytest.CaptureFixture[str]) -> None:
    async with world() as w:
        await some_queues(w)
        await list_queues(w.cluster(), Wanted(), tree=True)
        assert capsys.readouterr().out == (
            "QUEUE        STATE    WEIGHT   CPU USED/DESERVED/CAP       MEMORY      EXTENDED               "
            "RUN   PEND   INQ   SHARE\n"
            "root         Open     1        [..............] 0/-/-      0/-/-       -                      "
            "0     0      0     0.00\n"
            "├─ etl       Closed   1        [###...........] 32/-/-     0/-/-       -                      "
            "0     0      0     0.25\n"
            "└─ ml        Open     3        [##g####.|.....] 24/30/48   100Gi/-/-   nvidia.com/gpu 3/4/8   "
            "2     1      3     0.80\n"
            "   ├─ ml-a   Open     1        [..............] 0/-/-      0/-/-       -                      "
            "0     0      0     0.00\n"
            "   └─ ml-b   Open     1        [..............] 0/-/-      0/-/-       -                      "
            "0     0      0     0.00\n"
            "lost         Open     1        [..............] 0/-/-      0/-/-       -                      "
            "0     0      0     0.00\n"
        )
        await list_queues(w.cluster(), Wanted("wide", fields="metadata.name=ml"))
        header, row = capsys.readouterr().out.splitlines()
        assert header.split()[-3:] == ["GUARANTEE", "PARENT", "RECLAIMABLE"]
        assert row.split()[-4:] == ["cpu", "10", "root", "yes"]


def test_a_bar_has_marks_at_guarantee_and_deserved_amount() -> None:
    assert share_bar(0, 0, 0, 0) == ""
    assert share_bar(5, 0, 0, 10, width=10) == "[#####.....]"
    assert share_bar(5, 8, 2, 10, width=10) == "[##g##...|.]"
    assert share_bar(12, 0, 0, 10, width=10) == "[##########]"
    assert share_bar(1, 10, 0, 10, width=10) == "[#........|]"


def test_names_with_numbers_are_folded() -> None:
    assert fold_names([]) == ""
    assert fold_names(["node-1"]) == "node-1"
    assert fold_names(["node-10", "node-9", "node-11", "node-2", "gpu-a"]) == "gpu-a,node-[2,9-11]"
    assert fold_names(["n01", "n02", "n3"]) == "n[01-02,3]"


async def test_nodes_and_their_summary(capsys: pytest.CaptureFixture[str]) -> None:
    async with world() as w:
        for name in ("gpu-0", "gpu-1"):
            await w.node(name)
        await w.node("cpu-7", ready=False, **{"nvidia.com/gpu": "4"})
        await w.client.patch(kinds.NODE, "gpu-1", {"spec": {"unschedulable": True}})
        await w.pod("bert", "worker", 0, "Running", "gpu-0", cpu="1500m")
        await w.pod("bert", "worker", 1, "Running", "gpu-0", cpu="500m")
        await w.pod("bert", "worker", 2, "Succeeded", "gpu-0")
        await list_nodes(w.cluster(), Wanted())
        assert capsys.readouterr().out == (
            "NODE    STATUS                     PODS    CPU   MEMORY   EXTENDED             AGE\n"
            "cpu-7   NotReady                   0/110   0/8   0/32Gi   nvidia.com/gpu 0/4   0s\n"
            "gpu-0   Ready                      2/110   2/8   0/32Gi   -                    0s\n"
            "gpu-1   Ready,SchedulingDisabled   0/110   0/8   0/32Gi   -                    0s\n"
        )
        await w.client.patch(kinds.NODE, "gpu-1", {"spec": {"unschedulable": False}})
        await list_nodes(w.cluster(), Wanted(), summary=True)
        assert capsys.readouterr().out == (
            "STATUS     NODES   PODS    CPU    MEMORY   EXTENDED             NODELIST\n"
            "NotReady   1       0/110   0/8    0/32Gi   nvidia.com/gpu 0/4   cpu-7\n"
            "Ready      2       2/220   2/16   0/64Gi   -                    gpu-[0-1]\n"
        )


async def test_pods_of_a_job_by_task_and_index(capsys: pytest.CaptureFixture[str]) -> None:
    async with world() as w:
        await w.job("bert", "Running", {"worker": 12, "master": 1})
        await w.pod("bert", "worker", 10, "Pending")
        await w.pod("bert", "worker", 9, "Running", "gpu-0")
        await w.pod("bert", "master", 0, "Failed", "gpu-1")
        await w.pod("other", "worker", 0, "Running", "gpu-1")
        failed = pod_status("Failed", restarts=2, code=1)
        await w.status(kinds.POD, "bert-master-0", failed)
        await list_pods(w.cluster(), Wanted(), "bert")
        assert capsys.readouterr().out == (
            "POD              READY   STATUS       RESTARTS   AGE   NODE\n"
            "bert-master-0    0/1     ExitCode:1   2          0s    gpu-1\n"
            "bert-worker-9    1/1     Running      0          0s    gpu-0\n"
            "bert-worker-10   0/1     Pending      0          0s    <none>\n"
        )
        await list_pods(w.cluster(), Wanted("name"), None)
        assert len(capsys.readouterr().out.splitlines()) == 4
        with pytest.raises(UsageError, match=r'no job "brt" in namespace default; did you mean bert\?'):
            await list_pods(w.cluster(), Wanted(), "brt")


async def test_events_about_a_job_and_what_belongs_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    async with world() as w:
        made = await w.job("a", "Running", {"worker": 2})
        await w.event("Job", "a", "ExecuteAction", "Start to execute action")
        await w.event("PodGroup", f"a-{made['metadata']['uid']}", "Scheduled", "pod group is ready")
        w.clock.advance(minutes=1)
        await w.event("Pod", "a-worker-1", "Pulled", "image is present", count=3)
        await w.event("Pod", "a-b-worker-1", "Pulled", "of another job")
        await w.event("Job", "a-b", "ExecuteAction", "of another job")
        w.clock.advance(seconds=30)
        await list_events(w.cluster(), Wanted(), "a", None)
        rows = capsys.readouterr().out.splitlines()
        assert rows[0] == "LAST SEEN           TYPE     REASON          OBJECT" + " " * 44 + "MESSAGE"
        assert [(row.split()[0], row.split()[-1]) for row in rows[1:]] == [
            ("90s", "action"), ("90s", "ready"), ("30s", "present"),
        ]  # fmt: skip
        assert rows[3].startswith("30s (x3 over 30s)   Normal   Pulled          pod/a-worker-1 ")
        await list_events(w.cluster(), Wanted(), "a", 60)
        assert len(capsys.readouterr().out.splitlines()) == 2
        await w.client.delete(kinds.JOB, "a", "default")
        await list_events(w.cluster(), Wanted(), "a", None)
        assert "ExecuteAction" in capsys.readouterr().out
        with pytest.raises(UsageError, match='there is no job "aa"'):
            await list_events(w.cluster(), Wanted(), "aa", None)


async def test_a_job_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    async with world() as w:
        await w.job(
            "etl", "Pending", {"map": 4, "reduce": 1}, counts={"Running": 1, "Pending": 3},
            plugins={"svc": [], "env": []},
            waits=("NotEnoughResources", "2/4 tasks in gang unschedulable"),
        )  # fmt: skip
        await w.pod("etl", "map", 0, "Running", "gpu-0")
        await w.event("Job", "etl", "ExecuteAction", "Start to execute action")
        w.clock.advance(minutes=3)
        await show_job(w.cluster(), "etl", "text")
        assert capsys.readouterr().out == (
            "Job:       default/etl\n"
            "Phase:     Pending, for 3m\n"
            "Reason:    NotEnoughResources: 2/4 tasks in gang unschedulable\n"
            "Gang:      ##........ 1/5 of the minimum run or succeeded\n"
            "Queue:     default\n"
            "Created:   2030-01-01T00:00:00Z, 3m ago\n"
            "Plugins:   env, svc\n"
            "\n"
            "TASK     REPLICAS   MIN   RUNNING   PENDING   SUCCEEDED   FAILED\n"
            "map      4          4     1         3         0           0\n"
            "reduce   1          1     0         0         0           0\n"
            "\n"
            "POD         READY   STATUS    RESTARTS   AGE   NODE\n"
            "etl-map-0   1/1     Running   0          3m    gpu-0\n"
            "\n"
            "LAST SEEN   TYPE     REASON          OBJECT    MESSAGE\n"
            "3m          Normal   ExecuteAction   job/etl   Start to execute action\n"
        )
        await show_job(w.cluster(), "etl", "json")
        assert json.loads(capsys.readouterr().out)["metadata"]["name"] == "etl"


async def test_watching_prints_each_row_that_changes(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed(capsys)
    async with world() as w, anyio.create_task_group() as tasks:
        await w.job("a", "Pending", {"worker": 1}, counts={"Pending": 1})
        await w.job("b", "Pending", {"worker": 1}, counts={"Pending": 1}, waits=("QueueClosed", "its queue is closed"))
        tasks.start_soon(list_jobs, w.cluster(), Wanted(watch=True))
        assert len((await printed.until("QueueClosed")).splitlines()) == 3
        await w.status(kinds.JOB, "a", {"state": {"phase": "Running"}, "pending": None, "running": 1})
        assert (await printed.until("Running")).splitlines() == [
            "a     -       Running   1/1    1/0/0/0   default   -          0s    -",
        ]
        tasks.cancel_scope.cancel()


async def test_watching_prints_each_document_that_changes(capsys: pytest.CaptureFixture[str]) -> None:
    printed = Printed(capsys)
    async with world() as w, anyio.create_task_group() as tasks:
        await w.job("a", "Pending", {"worker": 1})
        tasks.start_soon(list_jobs, w.cluster(), Wanted("name", watch=True))
        assert await printed.until("/a") == "job.batch.volcano.sh/a\n"
        await w.job("b", "Pending", {"worker": 1})
        assert await printed.until("/b") == "job.batch.volcano.sh/b\n"
        await w.end("a", "Completed")
        assert await printed.until("/a") == "job.batch.volcano.sh/a\n"
        tasks.cancel_scope.cancel()


class _Refusing(InProcessTransport):
    """A transport of a user who may list jobs only."""

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        if "/jobs" in path:
            return await super().request(method, path, **options)
        return Response(403, b'{"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}')


async def test_a_user_who_may_list_only_jobs_sees_them_without_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    async with world() as w:
        await some_jobs(w)
        cluster = Cluster(Client(_Refusing(w.server)), "default", w.clock.now)
        await list_jobs(cluster, Wanted())
        assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[1:]] == [
            "…",
            "(TaskFailed)",
            "-",
            "-",
        ]


class _Interrupted(InProcessTransport):
    """A transport whose server may be gone."""

    is_down = False

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        if self.is_down:
            raise TransportError(f"{method} {path}: no connection")
        return await super().request(method, path, **options)


async def test_a_lost_server_is_reported_once_and_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    async with world() as w:
        await w.job("a", "Running", {"worker": 1})
        transport = _Interrupted(w.server)
        cluster = Cluster(Client(transport), "default", w.clock.now)
        transport.is_down = True
        with pytest.raises(TransportError):
            await list_jobs(cluster, Wanted())
        said = ""
        async with anyio.create_task_group() as tasks:

            async def bring_back() -> None:
                nonlocal said
                with anyio.fail_after(20):
                    while "trying again" not in said:
                        await anyio.lowlevel.checkpoint()
                        said += capsys.readouterr().err
                transport.is_down = False

            tasks.start_soon(bring_back)
            jobs, groups = Selected(kinds.JOB, "default"), Selected(kinds.POD_GROUP, "default")
            async with following(cluster, jobs, groups) as caches:
                assert list(caches.objects[kinds.JOB]) == ["default/a"]
        said += capsys.readouterr().err
        assert said == (
            "the API server cannot be watched now; trying again until Ctrl-C\nthe API server answers again\n"
        )
