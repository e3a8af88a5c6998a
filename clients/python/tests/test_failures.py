"""What can go wrong between a client and its server, made to happen."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest

from serving import Proxy, Server, eventually
from windrow import (
    AsyncClient,
    Client,
    Complete,
    Conflict,
    Event,
    Forbidden,
    NewItem,
    Refused,
    Unauthorized,
    Unreachable,
)


def test_a_lost_answer_is_asked_for_again_and_nothing_is_done_twice(
    proxy: Proxy, queue: str
) -> None:
    with Client(proxy.url) as client:
        client.health()
        for n in range(10):
            proxy.loses = 2
            assert client.enqueue(queue, n).outcome == "created"
        assert client.stats(queue=queue).pending == 10
        proxy.loses = 1
        grant = client.claim(queue, max=100)
        assert len(grant.items) == 10, "the repeat got the first answer"
        assert grant.lease is not None
        proxy.loses = 1
        told = client.settle(grant.lease, [(work.id, Complete()) for work in grant.items])
        assert all(answer.ok for answer in told)
        assert client.stats(queue=queue).completed == 10


def test_a_call_whose_answers_are_all_lost_is_unknown_and_can_be_repeated(
    proxy: Proxy, client: Client, queue: str
) -> None:
    with Client(proxy.url, within=0.2) as hasty:
        hasty.health()
        proxy.loses = 1000
        with pytest.raises(Unreachable) as why:
            hasty.enqueue(queue, 1, request_id=f"mine-{queue}")
        assert why.value.written == "unknown"
        assert "not known" in str(why.value)
        with pytest.raises(Unreachable) as looked:
            hasty.stats()
        assert looked.value.written == "no"
        proxy.loses = 0
        hasty.enqueue(queue, 1, request_id=f"mine-{queue}")
    assert client.stats(queue=queue).pending == 1
    with pytest.raises(Conflict) as reused:
        client.enqueue(queue, 2, request_id=f"mine-{queue}")
    assert reused.value.code == "request_reused"


def test_a_server_that_is_killed_under_way_loses_and_doubles_nothing(
    own_server: Server, queue: str
) -> None:
    """Killed again and again while a client enqueues: each item is there exactly once."""
    acknowledged: list[str] = []
    failed: list[BaseException] = []

    def enqueue() -> None:
        try:
            with Client(own_server.url) as client:
                for n in range(200):
                    acknowledged.append(client.enqueue(queue, n).id)
        except BaseException as why:
            failed.append(why)

    thread = threading.Thread(target=enqueue)
    thread.start()
    for enough in (20, 70, 120, 170):
        eventually(lambda enough=enough: len(acknowledged) >= enough or failed, "some items")  # type: ignore[misc]
        own_server.kill()
        own_server.start()
    thread.join(60)
    assert not failed
    assert not thread.is_alive()
    with Client(own_server.url) as client:
        rows = list(client.list_items(queue=queue))
    assert sorted(row.id for row in rows) == sorted(acknowledged)
    assert len(set(acknowledged)) == 200


def test_a_claim_is_answered_the_same_after_the_server_was_killed(
    own_server: Server, queue: str
) -> None:
    with Client(own_server.url) as client:
        client.enqueue_many([NewItem(n) for n in range(10)], queue=queue)
        first = client.claim(queue, max=4, request_id="claim-1")
        own_server.kill()
        own_server.start()
        again = client.claim(queue, max=4, request_id="claim-1")
        assert (again.lease, [w.id for w in again.items]) == (
            first.lease,
            [w.id for w in first.items],
        )
        assert client.stats(queue=queue).processing == 4


def test_a_server_that_is_down_at_the_start_is_waited_for(own_server: Server, queue: str) -> None:
    own_server.kill()
    answers: list[str] = []

    def enqueue() -> None:
        with Client(own_server.url) as client:
            answers.append(client.enqueue(queue, 1).outcome)

    thread = threading.Thread(target=enqueue)
    thread.start()
    own_server.start()
    thread.join(30)
    assert answers == ["created"]


def test_a_server_that_stays_down_is_unreachable_and_nothing_was_written() -> None:
    with Client("http://127.0.0.1:1", within=0.3) as client:
        began = time.monotonic()
        with pytest.raises(Unreachable) as why:
            client.enqueue("q", 1)
    assert (why.value.code, why.value.written, why.value.status) == ("unreachable", "no", None)
    assert "127.0.0.1:1" in why.value.detail
    assert time.monotonic() - began < 10


def test_a_stopped_server_closes_idle_connections_and_nobody_notices(
    own_server: Server, queue: str
) -> None:
    with Client(own_server.url) as client:
        client.enqueue(queue, 1)
        own_server.stop()
        own_server.start()
        client.enqueue(queue, 2)
        assert client.stats(queue=queue).pending == 2


def test_a_full_queue_is_told_at_once_with_when_to_come_again(client: Client, queue: str) -> None:
    settings = client.settings(queue)
    settings["live_max"] = 1
    client.configure(queue, settings)
    first, second = client.enqueue_many([NewItem(1), NewItem(2)], queue=queue)
    assert first.ok
    assert isinstance(second, Refused)
    assert second.error == "queue_full"
    assert second.as_error().retry_after is not None


def test_tokens_decide_who_may_do_what(own_server: Server, queue: str) -> None:
    own_server.stop()
    producer, viewer = own_server.token("producer"), own_server.token("viewer")
    own_server.start()
    with Client(own_server.url) as nobody, pytest.raises(Unauthorized) as why:
        nobody.stats()
    assert why.value.status == 401
    with Client(own_server.url, token=producer + "x") as wrong, pytest.raises(Unauthorized):
        wrong.enqueue(queue, 1)
    with Client(own_server.url, token=viewer) as looks:
        with pytest.raises(Forbidden) as no:
            looks.enqueue(queue, 1)
        assert (no.value.written, viewer in str(no.value)) == ("no", False)
    with Client(own_server.url, token=producer) as may:
        assert may.enqueue(queue, 1).ok


def test_tls_is_spoken_and_a_stranger_is_not_trusted(tmp_path: Path, queue: str) -> None:
    assert shutil.which("openssl"), "this test makes a certificate with openssl, which is not here"
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=windrow",
    ]
    make += ["-keyout", str(key), "-out", str(cert), "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(make, check=True, capture_output=True)
    arguments = ["--tls-cert", str(cert), "--tls-key", str(key)]
    with Server(tmp_path / "data", arguments) as server:
        assert server.url.startswith("https://")
        with Client(server.url, ca=cert) as client:
            assert client.enqueue(queue, 1).ok
            assert client.enqueue(queue, 2).ok
        own = ssl.create_default_context(cafile=cert)
        with Client(server.url, tls=own) as client:
            assert client.stats(queue=queue).pending == 2
        began = time.monotonic()
        with Client(server.url) as stranger, pytest.raises(Unreachable) as why:
            stranger.enqueue(queue, 3)
        assert (why.value.written, "certificate" in why.value.detail) == ("no", True)
        assert time.monotonic() - began < 30, "it was not tried again and again"

        async def trusts(ca: Path | None) -> int:
            async with AsyncClient(server.url, ca=ca) as client:
                return (await client.stats(queue=queue)).pending

        assert asyncio.run(trusts(cert)) == 2
        with pytest.raises(Unreachable, match="certificate"):
            asyncio.run(trusts(None))
    with pytest.raises(ValueError, match="not https"):
        Client("http://127.0.0.1:1", ca=cert)


class Follower:
    """Follows events in a thread."""

    def __init__(self, client: Client, queue: str, last: str | None = None) -> None:
        self.seen: list[Event] = []
        self.opened = threading.Event()
        self._events = client.events(queue=queue, last_event_id=last, on_open=self.opened.set)
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        assert self.opened.wait(30)

    def _follow(self) -> None:
        for event in self._events:
            self.seen.append(event)
            if event.event == "complete" or event.tenant == "end":
                return

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive(), self.seen


def test_events_tell_the_life_of_an_item_and_resume_where_they_were(
    proxy: Proxy, client: Client, queue: str
) -> None:
    with Client(proxy.url) as cut_off:
        follower = Follower(cut_off, queue)
        made = client.enqueue(queue, 1)
        eventually(lambda: follower.seen, "an event")
        proxy.cut()
        grant = client.claim(queue)
        assert grant.lease is not None
        client.settle(grant.lease, [(made.id, Complete())])
        follower.join()
    assert [event.event for event in follower.seen] == ["create", "claim", "complete"]
    assert {event.id for event in follower.seen} == {made.id}
    assert follower.seen[-1].status == "completed"
    assert follower.seen[-1].at is not None

    replayed = Follower(client, queue, last=follower.seen[0].place)
    replayed.join()
    assert [event.event for event in replayed.seen] == ["claim", "complete"]


def test_events_say_when_some_were_missed(own_server: Server, queue: str) -> None:
    with Client(own_server.url) as client:
        follower = Follower(client, queue)
        client.enqueue(queue, 1)
        eventually(lambda: follower.seen, "an event")
        own_server.kill()
        own_server.start()
        eventually(lambda: [e for e in follower.seen if e.event == "reset"], "a reset")
        client.enqueue(queue, 2, tenant="end")
        follower.join()
    assert [event.event for event in follower.seen] == ["create", "reset", "create"]


def test_events_are_refused_to_those_who_may_not_look(own_server: Server, queue: str) -> None:
    own_server.stop()
    own_server.token("viewer")
    own_server.start()
    with Client(own_server.url) as client, pytest.raises(Unauthorized):
        next(iter(client.events(queue=queue)))
