"""What the page's server answers, to whom, and what it refuses."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Unpack

import anyio
import pytest

from tests.scenario.cluster.harness import job_manifest
from tests.scenario.web.support import Limited, Site, Unaccepted, api_server, node, queue, site
from tests.unit.journals.writing import Writer
from volcanoio.kube.client import Client
from volcanoio.kube.requests import PatchOptions
from volcanoio.kube.transport import RequestOptions, Response, Transport
from volcanoio.model import kinds
from volcanoio.model.base import ApiObject, Manifest
from volcanoio.model.workloads import QUEUE_PHASE, place_message
from volcanoio.web.app import PageOptions
from volcanoio.web.viewers import MOST_FEEDS, MOST_VIEWERS, Viewers


def waiting_group(job: ApiObject) -> Manifest:
    """Return the PodGroup of a job that waits for cpu."""
    unschedulable = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "NotEnoughResources",
        "message": "3/3 tasks in gang unschedulable: 0/1 nodes are unavailable: 1 Insufficient cpu.",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "transitionID": "1",
    }
    return {
        "metadata": {"name": "train-group", "ownerReferences": [kinds.owner_reference(kinds.JOB, job)]},
        "spec": {"minMember": 3, "queue": "default"},
        "status": {"phase": "Inqueue", "conditions": [unschedulable]},
    }


@asynccontextmanager
async def served() -> AsyncIterator[tuple[Client, Site]]:
    """Serve the page of a small cluster to one user who may do everything; yields a client of the cluster, too."""
    async with api_server() as api:
        await api.create(kinds.QUEUE, queue("default", capability={"cpu": "8"}))
        await api.create(kinds.NODE, node("n1"))
        await api.create(kinds.JOB, job_manifest("train", replicas=3, cpu="2"), namespace="default")
        await api.create(kinds.JOB, job_manifest("other"), namespace="team")
        async with site(Viewers(own=Limited(api.transport))) as page:
            yield api, page


async def test_the_state_has_a_row_for_each_job_queue_and_node() -> None:
    async with served() as (_, page):
        state = await page.get("api/state")
        (rows,) = state["parts"]
        assert state["isWhole"] is True
        assert state["missing"] == []
        assert set(rows["jobs"]) == {"default/train", "team/other"}
        assert rows["jobs"]["default/train"]["replicas"] == 3
        assert rows["queues"]["default"]["capability"] == {"cpu": 8000}
        assert rows["nodes"]["n1"]["allocatable"]["cpu"] == 4000


async def test_a_native_group_has_a_page_of_its_own() -> None:
    """Beside the PodGroup of Volcano with the same name; the events and the manifest are its own."""
    async with served() as (api, page):
        await api.create(kinds.POD_GROUP, {"metadata": {"name": "same"}, "spec": {"minMember": 1}}, namespace="default")
        policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        await api.create(kinds.NATIVE_POD_GROUP, {"metadata": {"name": "same"}, "spec": policy}, namespace="default")
        counted = {
            "type": QUEUE_PHASE, "status": "True", "reason": "Inqueue",
            "message": place_message("default", "volcano"),
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        status = {"status": {"conditions": [counted]}}
        await api.patch(kinds.NATIVE_POD_GROUP, "same", status, "default", PatchOptions(subresource="status"))
        for each in (kinds.POD_GROUP, kinds.NATIVE_POD_GROUP):
            about = {"apiVersion": each.api_version, "kind": each.kind, "namespace": "default", "name": "same"}
            event = {"metadata": {"name": each.resource}, "involvedObject": about, "reason": each.group}
            await api.create(kinds.EVENT, event, namespace="default")
        rows = (await page.get("api/state"))["parts"][0]["jobs"]
        row = rows["default/podgroup.scheduling.k8s.io/same"]
        assert (row["kind"], row["phase"], row["queue"]) == ("PodGroup.scheduling.k8s.io", "Inqueue", "default")
        assert rows["default/pg/same"]["kind"] == "PodGroup"
        kind = "PodGroup.scheduling.k8s.io"
        assert (await page.get("api/job", kind=kind, namespace="default", name="same"))["pods"] == []
        events = await page.get("api/events", kind=kind, namespace="default", name="same")
        assert [each["reason"] for each in events] == ["scheduling.k8s.io"]
        _, text = await page.ask("GET", "api/yaml", kind=kind, namespace="default", name="same")
        assert text.startswith("apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\n")
        assert (await page.ask("GET", "podgroup.scheduling.k8s.io/default/same"))[0] == 200


async def test_the_key_of_the_printed_link_is_needed() -> None:
    async with served() as (_, page):
        for path in (
            "api/state",
            "api/session",
            "api/stream",
            "api/job",
            "api/yaml",
            "api/logs",
            "api/why",
            "api/trend",
        ):
            for client in (page.signed_in(""), page.signed_in("guess")):
                status, found = await client.ask("GET", path)
                assert (status, found["error"]["code"]) == (401, 401), path
        status, _ = await page.signed_in("").ask("GET", "jobs")  # the page itself says how to sign in
        assert status == 200


async def test_a_name_that_leads_to_loopback_from_elsewhere_is_refused() -> None:
    async with served() as (_, page):
        for host in ("evil.example", "evil.example:8088", "127.0.0.1.evil.example", "[::1", ""):
            for path in ("", "api/state", "static/app.js"):
                status, found = await page.ask("GET", path, headers={"Host": host})
                assert status == 421, (host, path)
                assert "127.0.0.1" in found["error"]["message"]
        for host in ("localhost:8088", "127.0.0.1:1", "[::1]:8088"):
            assert (await page.ask("GET", "api/session", headers={"Host": host}))[0] == 200


async def test_requests_of_other_sites_are_refused() -> None:
    async with served() as (_, page):
        for headers in (
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://127.0.0.1:1"},
        ):
            for method, path in (
                ("GET", "api/state"),
                ("GET", "api/stream"),
                ("POST", "api/jobs/default/train/cancel"),
            ):
                status, found = await page.ask(method, path, headers=headers)
                assert (status, "other sites" in found["error"]["message"]) == (403, True), headers


async def test_every_answer_has_a_strict_content_policy() -> None:
    async with served() as (_, page):
        for path in (
            "",
            "jobs",
            "job/default/train",
            "static/app.js",
            "static/none.js",
            "api/state",
            "api/none",
            "api/stream",
        ):
            async with page.session.get(f"{page.url}/{path}", headers=page.headers) as answer:
                policy = dict(
                    each.strip().partition(" ")[::2] for each in answer.headers["Content-Security-Policy"].split(";")
                )
                assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
                assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
                assert "unsafe" not in answer.headers["Content-Security-Policy"]
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                if path.startswith("api/"):
                    assert answer.headers["Cache-Control"] == "no-store"


def test_the_page_has_no_inline_code_and_loads_nothing_from_elsewhere() -> None:
    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            given = dict(attrs)
            assert not [name for name in given if name == "style" or name.startswith("on")]
            assert tag != "style"
            assert tag != "script" or given["src"]
            for name in ("src", "href"):
                assert re.fullmatch(r"/[^/].*|/|#.*", given.get(name) or "/"), given

    static = resources.files("volcanoio.web") / "static"
    Reader().feed((static / "index.html").read_text(encoding="utf-8"))
    scripts = [*static.iterdir(), *(static / "pages").iterdir()]
    for script in scripts:
        if script.name.endswith((".js", ".css")):
            text = script.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
            assert not re.search(r"https?://|@import|innerHTML|eval\(|document\.write", text), script.name


async def test_a_stream_resumes_after_the_last_event_that_was_read() -> None:
    async with served() as (api, page):
        async with page.stream() as events:
            first = await anext(events)
            assert first.kind == "rows"
            assert set(first.data["jobs"]) == {"default/train", "team/other"}
            await api.create(kinds.JOB, job_manifest("second"), namespace="default")
            second = await anext(events)
            assert (second.kind, list(second.data["jobs"])) == ("changes", ["default/second"])
        await api.delete(kinds.JOB, "second", "default")
        await api.create(kinds.JOB, job_manifest("third"), namespace="default")
        seen: dict[str, object] = {}
        async with page.stream(last=second.id) as events:
            while "default/third" not in seen or seen.get("default/second", 0) is not None:
                event = await anext(events)
                assert event.kind == "changes"  # nothing that was read before is sent again
                seen |= event.data["jobs"]
        assert set(seen) == {"default/second", "default/third"}


async def test_a_stream_after_an_unknown_event_begins_with_all_rows() -> None:
    async with served() as (_, page):
        name = (await page.get("api/state"))["id"].partition(".")[0]
        for last in (
            "0123456789ab.4",
            "nonsense",
            "nonsense.x",
            ".",
            f"{name}.{'9' * 30}",
            f"{name}.1000",
            f"{name}.-1",
        ):
            async with page.stream(last=last) as events:
                assert (await anext(events)).kind == "rows", last


async def test_changes_can_be_polled() -> None:
    async with served() as (api, page):
        state = await page.get("api/state")
        async with page.stream(last=state["id"]) as events:
            await api.create(kinds.JOB, job_manifest("second"), namespace="default")
            event = await anext(events)
            while "default/second" not in event.data["jobs"]:
                event = await anext(events)
        found = await page.get("api/changes", after=state["id"])
        assert found["isWhole"] is False
        assert "default/second" in found["parts"][-1]["jobs"]
        nothing = await page.get("api/changes", after=found["id"])
        assert (nothing["id"], nothing["parts"]) == ("", [])


async def test_an_action_needs_the_token_of_the_session() -> None:
    async with served() as (api, page):
        for csrf in ("", "guess"):
            status, found = await page.act("jobs/default/train/cancel", csrf=csrf)
            assert (status, "X-Volcanoio-CSRF" in found["error"]["message"]) == (403, True)
        csrf = (await page.get("api/session"))["csrf"]
        headers = {**page.headers, "X-Volcanoio-CSRF": csrf, "Content-Type": "text/plain"}
        async with page.session.post(
            f"{page.url}/api/jobs/default/train/cancel", headers=headers, data=b"{}"
        ) as answer:
            assert answer.status == 415
        assert [job.metadata.name for job in await api.list(kinds.JOB, "default")] == ["train"]
        status, found = await page.act("jobs/default/train/cancel")
        assert (status, found["message"]) == (200, "job train is being deleted; it was Pending")
        assert await api.list(kinds.JOB, "default") == []


async def test_suspending_and_closing_are_commands_as_of_vcctl() -> None:
    async with served() as (api, page):
        assert (await page.act("jobs/default/train/suspend"))[0] == 200
        assert (await page.act("queues/default/close"))[0] == 200
        found = [
            (each["action"], each["target"]["kind"], each["target"]["name"])
            for each in await api.list_raw(kinds.COMMAND)
        ]
        assert sorted(found) == [("AbortJob", "Job", "train"), ("CloseQueue", "Queue", "default")]


async def test_an_action_without_effect_is_refused() -> None:
    async with served() as (_, page):
        status, found = await page.act("jobs/default/train/resume")
        assert (status, found["error"]["message"]) == (
            409,
            "job train is Pending and cannot be resumed; nothing changed",
        )
        status, found = await page.act("jobs/default/train/explode")
        assert (status, found["error"]["message"]) == (
            400,
            '"explode" is no action on a Job; valid values: suspend, resume, cancel',
        )
        assert (await page.act("queues/default/explode"))[0] == 400
        assert (await page.act("jobs/default/none/cancel"))[0] == 404
        assert (await page.act("queues/none/open"))[0] == 404


async def test_a_user_without_rights_has_no_buttons_and_is_refused() -> None:
    async with served() as (api, _):
        user = Limited(api.transport, "create commands", "delete jobs default", "update queues")
        async with site(Viewers(own=user)) as page:
            may = (await page.get("api/job", namespace="default", name="train"))["may"]
            assert may["suspend"] == [False, "you may not create commands.bus.volcano.sh in namespace default"]
            assert may["cancel"] == [False, "you may not delete jobs.batch.volcano.sh in namespace default"]
            assert (await page.get("api/job", namespace="team", name="other"))["may"]["cancel"] == [True, ""]
            assert not any(allowed for allowed, _ in (await page.get("api/queue", name="default")).values())
            for action in ("jobs/default/train/suspend", "jobs/default/train/cancel", "queues/default/close"):
                status, found = await page.act(action)
                assert (status, 'User "ann" cannot' in found["error"]["message"]) == (403, True), action
        assert len(await api.list(kinds.JOB, "default")) == 1
        assert await api.list(kinds.COMMAND) == []


async def test_actions_are_offered_only_where_they_have_an_effect() -> None:
    async with served() as (_, page):
        may = (await page.get("api/job", namespace="default", name="train"))["may"]
        assert may == {"suspend": [True, ""], "resume": [False, "the job is Pending"], "cancel": [True, ""]}
        offers = await page.get("api/queue", name="default")
        assert offers["close"] == [True, ""]


async def test_kinds_that_may_not_be_listed_are_left_out_and_named() -> None:
    async with served() as (api, _):
        user = Limited(api.transport, "list nodes", "watch queues")
        async with site(Viewers(own=user)) as page:
            state = await page.get("api/state")
            assert state["missing"] == ["queues.scheduling.volcano.sh", "nodes"]
            assert set(state["parts"][0]["jobs"]) == {"default/train", "team/other"}
            assert (state["parts"][0]["nodes"], state["parts"][0]["queues"]) == ({}, {})
            await api.create(
                kinds.POD_GROUP, waiting_group(await api.get(kinds.JOB, "train", "default")), namespace="default"
            )
            why = await page.get("api/why", kind="job", namespace="default", name="train")
            (note,) = why["notes"]
            assert note.startswith("from conditions alone")
            assert note.endswith("the right to list queues.scheduling.volcano.sh, nodes")
            assert "0/1 nodes are unavailable" in why["answer"]["diagnosis"]["message"]


async def test_a_user_of_one_namespace_sees_that_namespace() -> None:
    async with served() as (api, _):
        everywhere = [f"{verb} {plural} " for verb in ("list", "watch") for plural in ("jobs", "podgroups", "pods")]
        user = Limited(api.transport, *(each.strip() + " default" for each in everywhere))
        user.denied |= {"list jobs default", "watch jobs default"}
        async with site(Viewers(own=user)) as page:
            (rows,) = (await page.get("api/state", within="team"))["parts"]
            assert set(rows["jobs"]) == {"team/other"}
            (rows,) = (await page.get("api/state", within="default"))["parts"]
            assert rows["jobs"] == {}


async def test_each_token_is_a_user_of_its_own() -> None:
    async with served() as (api, _):
        transports: dict[str, Limited] = {}

        def connect(authorization: str) -> Limited:
            kind = Unaccepted if "bad" in authorization else Limited
            denied = ("delete jobs",) if "ann" in authorization else ()
            transports[authorization] = kind(api.transport, *denied)
            return transports[authorization]

        async with site(Viewers(connect=connect)) as page:
            assert (await page.ask("GET", "api/state"))[0] == 401
            assert (await page.ask("GET", "api/state", headers={"Authorization": "Basic YTpi"}))[0] == 401
            status, found = await page.signed_in("bad-token").ask("GET", "api/state")
            assert (status, "sign in again" in found["error"]["message"]) == (401, True)
            assert transports.pop("Bearer bad-token").closed
            ann, bob = page.signed_in("ann-token"), page.signed_in("bob-token")
            assert (await ann.get("api/job", namespace="default", name="train"))["may"]["cancel"][0] is False
            assert (await bob.get("api/job", namespace="default", name="train"))["may"]["cancel"][0] is True
            ann_csrf = (await ann.get("api/session"))["csrf"]
            assert (await bob.act("jobs/default/train/cancel", csrf=ann_csrf))[0] == 403
            assert set(transports) == {"Bearer ann-token", "Bearer bob-token"}
            before = len(transports["Bearer ann-token"].sent)
            assert (await bob.act("jobs/default/train/cancel"))[0] == 200
            assert (
                len(transports["Bearer ann-token"].sent) == before
                or ("DELETE", "/x") not in transports["Bearer ann-token"].sent
            )
            assert [method for method, _ in transports["Bearer bob-token"].sent].count("DELETE") == 1


async def test_credentials_of_a_kubeconfig_that_are_not_accepted_are_no_reason_to_sign_in() -> None:
    async with served() as (api, _), site(Viewers(own=Unaccepted(api.transport))) as page:
        status, found = await page.ask("GET", "api/state")
        assert (status, "credentials of the kubeconfig" in found["error"]["message"]) == (502, True)


async def test_the_number_of_users_is_limited() -> None:
    async with served() as (api, _), site(Viewers(connect=lambda _: Limited(api.transport))) as page:
        for number in range(MOST_VIEWERS):
            await page.signed_in(f"token-{number}").get("api/session")
        status, found = await page.signed_in("one-more").ask("GET", "api/session")
        assert (status, "try again" in found["error"]["message"]) == (503, True)
        await page.signed_in("token-0").get("api/session")


async def test_the_feeds_of_one_user_are_limited() -> None:
    async with served() as (api, _), site(Viewers(own=Limited(api.transport))) as page, AsyncExitStack() as streams:
        for number in range(MOST_FEEDS):
            events = await streams.enter_async_context(page.stream(within=f"a{number}"))
            assert (await anext(events)).kind == "rows"
        status, found = await page.ask("GET", "api/state", within="team")
        assert (status, "close a page" in found["error"]["message"]) == (429, True)
        await page.get("api/state", within="a1")


async def test_the_feed_that_was_not_read_for_the_longest_time_ends_for_another() -> None:
    async with (
        served() as (api, _),
        site(Viewers(own=Limited(api.transport))) as page,
        page.stream(within="a0") as events,
    ):
        read, *unread = [await page.get("api/state", within=f"a{number}") for number in range(MOST_FEEDS)]
        assert (await anext(events)).kind == "rows"
        await page.get("api/state", within="team")
        assert (await page.get("api/changes", within="a0", after=read["id"]))["isWhole"] is False
        last = await page.get("api/changes", within=f"a{MOST_FEEDS - 1}", after=unread[-1]["id"])
        assert last["isWhole"] is False
        ended = await page.get("api/changes", within="a1", after=unread[0]["id"])
        assert ended["isWhole"] is True  # of a feed that was started again


class Silent(Limited):
    """A transport to pods that write nothing to their logs; `left` is set once no request waits for one."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.left = anyio.Event()

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """Open a stream; that of a log has no lines."""
        if not path.endswith("/log"):
            async with super().stream(path, query=query) as lines:
                yield lines
            return

        async def nothing() -> AsyncIterator[list[bytes]]:
            await anyio.sleep_forever()
            yield []

        try:
            yield nothing()
        finally:
            self.left.set()


async def test_a_log_is_no_longer_followed_once_the_browser_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volcanoio.web.app.HEARTBEAT", 0.01)
    async with served() as (api, _):
        user = Silent(api.transport)
        async with site(Viewers(own=user)) as page:
            query = {"namespace": "default", "pod": "train-worker-0"}
            async with page.session.get(f"{page.url}/api/logs/follow", headers=page.headers, params=query) as answer:
                assert await answer.content.readline() == b": nothing new\n"
                assert not user.left.is_set()
            with anyio.fail_after(30):
                await user.left.wait()


class Revocable(Limited):
    """A transport with a token that can be revoked."""

    is_revoked = False

    async def request(self, method: str, path: str, **options: Unpack[RequestOptions]) -> Response:
        """Send a request if the token is accepted."""
        if self.is_revoked:
            return await Unaccepted(self._transport).request(method, path, **options)
        return await super().request(method, path, **options)


@pytest.mark.parametrize(("path", "query"), [("api/session", {}), ("api/queue", {"name": "default"})])
async def test_a_revoked_token_makes_room_for_another_user(
    monkeypatch: pytest.MonkeyPatch, path: str, query: dict[str, str]
) -> None:
    monkeypatch.setattr("volcanoio.web.viewers.MOST_VIEWERS", 1)
    async with served() as (api, _):
        users: list[Revocable] = []

        def connect(_: str) -> Revocable:
            users.append(Revocable(api.transport))
            return users[-1]

        async with site(Viewers(connect=connect)) as page:
            ann, bob = page.signed_in("ann-token"), page.signed_in("bob-token")
            await ann.get("api/state")
            assert (await bob.ask("GET", "api/session"))[0] == 503
            users[0].is_revoked = True
            status, found = await ann.ask("GET", path, headers=None, body=None, **query)
            assert (status, "sign in again" in found["error"]["message"]) == (401, True)
            assert users[0].closed
            await bob.get("api/state")


async def test_a_right_that_is_taken_away_ends_the_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as (api, _):
        monkeypatch.setattr("volcanoio.web.viewers.RIGHT_SECONDS", 0.0)
        monkeypatch.setattr("volcanoio.web.app.HEARTBEAT", 0.01)
        user = Limited(api.transport)
        async with site(Viewers(own=user)) as page:
            async with page.stream() as events:
                assert (await anext(events)).data["nodes"].keys() == {"n1"}
                user.denied.add("list nodes")
                with anyio.fail_after(30):
                    async for event in events:
                        assert event.kind == "changes"
            state = await page.get("api/state")
            assert (state["missing"], state["parts"][0]["nodes"]) == (["nodes"], {})


BAD: tuple[tuple[str, dict[str, str], str], ...] = (
    ("api/job", {}, 'namespace: "" is not the name of an object'),
    ("api/job", {"namespace": "default", "name": "../secrets"}, 'name: "../secrets" is not the name of an object'),
    ("api/job", {"namespace": "default", "name": "a", "kind": "Secret"}, "kind: valid values: Job, PodGroup"),
    ("api/yaml", {"kind": "secret", "namespace": "default", "name": "a"}, "kind: valid values: job, node, pod"),
    ("api/logs", {"namespace": "default", "pod": "a", "tail": "-1"}, 'tail: "-1" is not a number of lines'),
    ("api/logs", {"namespace": "default", "pod": "a", "tail": "1e9"}, 'tail: "1e9" is not a number of lines'),
    ("api/logs", {"namespace": "default", "pod": "a/log?x"}, 'pod: "a/log?x" is not the name of an object'),
    ("api/state", {"within": "a/b"}, 'namespace: "a/b" is not the name of an object'),
    ("api/why", {"kind": "secret", "name": "a", "namespace": "default"}, "is no kind that waits"),
)


async def test_bad_parameters_are_named() -> None:
    async with served() as (_, page):
        for path, query, message in BAD:
            status, found = await page.ask("GET", path, headers=None, body=None, **query)
            assert status in (400, 404), path
            assert message in found["error"]["message"]


async def test_the_past_needs_a_journal_and_the_right_to_list_all_pods(tmp_path: Path) -> None:
    async with served() as (api, page):
        status, found = await page.ask("GET", "api/history")
        assert (status, "--journal DIR" in found["error"]["message"]) == (404, True)
        for at in ("", "yesterday", "nan", "inf"):
            status, found = await page.ask("GET", "api/history/at", at=at)
            assert (status, found["error"]["message"].startswith("at: ")) == (400, True)
        empty = PageOptions(journal=tmp_path)
        user = Limited(api.transport, "list pods")
        async with site(Viewers(own=Limited(api.transport)), empty) as page:
            status, found = await page.ask("GET", "api/history")
            assert (status, "no journal" in found["error"]["message"]) == (500, True)
        Writer(tmp_path / "begun", "scheduler")
        async with site(Viewers(own=Limited(api.transport)), PageOptions(journal=tmp_path / "begun")) as page:
            status, found = await page.ask("GET", "api/history")
            assert (status, "no event yet" in found["error"]["message"]) == (404, True)
            status, found = await page.ask("GET", "api/history/at", at="1")
            assert (status, found) == (200, {"jobs": {}, "queues": {}, "nodes": {}})
        async with site(Viewers(own=user), empty) as page:
            for path in ("api/history", "api/history/at"):
                status, found = await page.ask("GET", path, at="1")
                assert (status, "may list the pods" in found["error"]["message"]) == (403, True)


async def test_what_does_not_exist_is_not_found() -> None:
    async with served() as (_, page):
        for path, query in (
            ("api/job", {"namespace": "default", "name": "none"}),
            ("api/yaml", {"kind": "Job", "namespace": "default", "name": "none"}),
            ("api/why", {"namespace": "default", "name": "none"}),
            ("api/queue", {"name": "none"}),
            ("api/none", {}),
            ("none", {}),
            ("static/../app.py", {}),
        ):
            status, found = await page.ask("GET", path, headers=None, body=None, **query)
            assert (status, found["error"]["code"]) == (404, 404), path


async def test_what_happened_to_a_job_is_listed_from_its_objects() -> None:
    async with served() as (api, page):
        group = waiting_group(await api.get(kinds.JOB, "train", "default"))
        await api.create(kinds.POD_GROUP, group, namespace="default")
        steps = await page.get("api/timeline", namespace="default", name="train")
        assert [kind for _, kind, _ in steps][:1] == ["submitted"]
        assert any("PodGroup train-group created" in text for _, _, text in steps)
        status, found = await page.ask("GET", "api/timeline", namespace="default", name="none")
        assert (status, "has no job default/none" in found["error"]["message"]) == (404, True)


async def test_the_events_of_a_job_are_not_those_of_one_whose_name_begins_alike() -> None:
    def event(kind: str, name: str) -> Manifest:
        about = {"kind": kind, "namespace": "default", "name": name}
        return {"metadata": {"name": f"{name}.1"}, "involvedObject": about, "reason": "Seen", "message": "", "count": 1}

    async with served() as (api, page):
        await api.create(kinds.JOB, job_manifest("train-2"), namespace="default")
        await page.get("api/state")
        (task,) = {task["name"] for task in (await api.get_raw(kinds.JOB, "train", "default"))["spec"]["tasks"]}
        for kind, name in (
            ("Job", "train"),
            ("Pod", f"train-{task}-0"),
            ("Job", "train-2"),
            ("Pod", f"train-2-{task}-0"),
        ):
            await api.create(kinds.EVENT, event(kind, name), namespace="default")
        for job in ("train", "train-2"):
            found = await page.get("api/events", namespace="default", name=job)
            assert {each["object"] for each in found} == {f"Job/{job}", f"Pod/{job}-{task}-0"}


async def test_the_events_of_pods_are_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volcanoio.web.details.MOST_EVENTS", 2)
    async with served() as (api, page):
        for name in ("a-1", "a-2", "train-x-0"):
            about = {"kind": "Pod", "namespace": "default", "name": name}
            manifest = {"metadata": {"name": name}, "involvedObject": about}
            await api.create(kinds.EVENT, manifest, namespace="default")
        found = await api.list_raw(kinds.EVENT, "default")
        assert [each["metadata"]["name"] for each in found] == ["a-1", "a-2", "train-x-0"]
        assert await page.get("api/events", namespace="default", name="train") == []
        monkeypatch.setattr("volcanoio.web.details.MOST_EVENTS", 3)
        await api.delete(kinds.JOB, "train", "default")  # pods of a job that is gone are known by their names
        async with page.stream() as events:
            async for event in events:
                if "default/train" not in event.data["jobs"] or event.data["jobs"]["default/train"] is None:
                    break
        (event_view,) = await page.get("api/events", namespace="default", name="train")
        assert event_view["object"] == "Pod/train-x-0"


async def test_a_manifest_is_yaml_without_managed_fields() -> None:
    async with served() as (_, page):
        status, text = await page.ask("GET", "api/yaml", kind="Job", namespace="default", name="train")
        assert status == 200
        assert text.startswith("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n")
        assert "managedFields" not in text
