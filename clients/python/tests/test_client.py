"""Every verb against a real server."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from serving import Server, eventually
from windrow import (
    BlobRef,
    Child,
    Client,
    Complete,
    Conflict,
    Enqueued,
    Fail,
    Grant,
    Invalid,
    LeaseLost,
    NewItem,
    NotFound,
    Progress,
    Refused,
    Release,
    Retry,
    Settled,
    Skip,
    Snooze,
    Split,
)


def claimed(client: Client, queue: str, max: int = 1) -> tuple[str, Grant]:
    grant = client.claim(queue, max=max, wait=10, worker="w1")
    assert grant.lease is not None
    return grant.lease, grant


def test_an_item_goes_from_enqueue_to_completed(client: Client, queue: str) -> None:
    made = client.enqueue(
        queue, {"width": 200}, key="cat.jpg", priority=7, kind="image", metadata={"by": "me"}
    )
    assert (made.ok, made.outcome) == (True, "created")
    lease, grant = claimed(client, queue)
    [work] = grant.items
    assert (work.id, work.payload, work.key, work.attempt) == (
        made.id,
        {"width": 200},
        "cat.jpg",
        1,
    )
    assert (work.kind, work.priority, work.metadata) == ("image", 7, {"by": "me"})
    [settled] = client.settle(lease, [(made.id, Complete({"bytes": 2310}))])
    assert isinstance(settled, Settled)
    assert settled.ending == "completed"
    item = client.show(made.id)
    assert (item.status, item.result) == ("completed", {"bytes": 2310})
    assert item.log[0].worker == "w1"
    assert client.history(made.id)[0].event == "create"


def test_bytes_arrive_as_they_were(client: Client, queue: str) -> None:
    made = client.enqueue(queue, bytes(range(256)))
    lease, grant = claimed(client, queue)
    assert grant.items[0].payload == bytes(range(256))
    client.settle(lease, [(made.id, Complete(b"\xff\x00"))])
    item = client.show(made.id)
    assert (item.payload, item.result) == (bytes(range(256)), b"\xff\x00")


def test_a_key_that_waits_is_kept_or_replaced(client: Client, queue: str) -> None:
    first = client.enqueue(queue, 1, key="k")
    again = client.enqueue(queue, 2, key="k")
    assert (again.outcome, again.id) == ("duplicate", first.id)
    newer = client.enqueue(queue, 3, key="k", on_duplicate="replace")
    assert (newer.outcome, newer.id) == ("replaced", first.id)
    _, grant = claimed(client, queue)
    assert grant.items[0].payload == 3
    assert client.enqueue(queue, 4, key="k").outcome == "successor"


def test_many_items_are_answered_each_and_a_bad_one_harms_no_other(
    client: Client, queue: str
) -> None:
    items = [NewItem(n, key=str(n)) for n in range(1500)]
    items[7] = NewItem("bad", priority=99, key="bad")
    answers = client.enqueue_many(items, queue=queue)
    assert len(answers) == 1500
    bad = answers[7]
    assert isinstance(bad, Refused)
    assert (bad.ok, bad.error, bad.key, bad.index) == (False, "invalid", "bad", 7)
    assert isinstance(bad.as_error(), Invalid)
    assert sum(isinstance(answer, Enqueued) for answer in answers) == 1499
    assert client.stats(queue=queue).pending == 1499
    rows = list(client.list_items(queue=queue))
    assert len({row.id for row in rows}) == 1499


def test_items_of_one_request_may_go_to_several_queues(client: Client, queue: str) -> None:
    both = [NewItem(1, queue=queue), NewItem(2, queue=f"{queue}-2")]
    assert all(answer.ok for answer in client.enqueue_many(both))
    assert client.stats(queue=f"{queue}-2").pending == 1


def test_a_claim_of_nothing_is_false(client: Client, queue: str) -> None:
    grant = client.claim(queue)
    assert not grant
    assert (grant.lease, grant.items) == (None, [])


def test_a_delayed_item_is_claimed_when_its_time_has_come(client: Client, queue: str) -> None:
    later = client.enqueue(queue, 1, delay=timedelta(hours=1))
    at = datetime.now(timezone.utc) + timedelta(hours=2)
    latest = client.enqueue(queue, 2, not_before=at)
    assert not client.claim(queue)
    assert any("visible" in why.code for why in client.explain(later.id).reasons)
    shown = client.show(latest.id).not_before
    assert shown is not None
    assert abs((shown - at).total_seconds()) < 0.01


def test_every_outcome_does_what_it_says(client: Client, quick: Callable[..., str]) -> None:
    queue = quick(max_attempts=2)
    until = datetime.now(timezone.utc) + timedelta(hours=1)
    outcomes = {
        "complete": Complete(),
        "retry": Retry("once more", class_="resource"),
        "fail": Fail("no good", class_="bad_data"),
        "skip": Skip("nothing to do"),
        "release": Release(delay=3600),
        "snooze": Snooze(until),
        "split": Split([Child(0, "page", {"n": 0}), Child(1, "page", b"\x00")]),
    }
    ids = {name: client.enqueue(queue, name).id for name in outcomes}
    lease, grant = claimed(client, queue, max=len(outcomes))
    assert len(grant.items) == len(outcomes)
    told = client.settle(lease, [(ids[name], outcomes[name]) for name in outcomes])
    assert all(answer.ok for answer in told), told
    items = {name: client.show(id) for name, id in ids.items()}
    assert items["complete"].status == "completed"
    assert items["retry"].status in ("pending", "processing")
    assert items["fail"].error is not None
    assert (items["fail"].status, items["fail"].error.class_) == ("failed", "bad_data")
    assert (items["skip"].status, items["skip"].reason) == ("skipped", "nothing to do")
    assert (items["release"].status, items["release"].attempts) == ("pending", 0)
    assert (items["snooze"].status, items["snooze"].attempts) == ("pending", 0)
    tree = client.tree(ids["split"])
    assert [child.payload for child in tree.children] == [{"n": 0}, b"\x00"]
    assert tree.item.children is not None
    assert tree.item.children.pending == 2
    assert tree.children[0].place is not None
    assert tree.children[0].place.parent == ids["split"]


def test_what_a_stage_puts_out_is_the_input_of_the_next(client: Client, queue: str) -> None:
    made = client.enqueue(queue, "pdf", route=["ocr", "vector"])
    lease, _ = claimed(client, queue)
    client.settle(
        lease,
        [(made.id, Complete(output={"text": "hello"}, spawn=[NewItem(1, queue=f"{queue}-s")]))],
    )
    assert client.stats(queue=f"{queue}-s").pending == 1
    lease, grant = claimed(client, queue)
    assert (grant.items[0].stage, grant.items[0].input) == ("vector", {"text": "hello"})
    assert client.show(made.id).stages[0].status == "completed"


def test_a_lease_is_renewed_reports_progress_and_is_lost_when_released(
    client: Client, queue: str
) -> None:
    made = client.enqueue(queue, 1)
    lease, _ = claimed(client, queue)
    renewed = client.renew(lease, for_=3600)
    assert renewed.held == [made.id]
    assert renewed.expires_at > datetime.now(timezone.utc) + timedelta(minutes=30)
    assert client.progress(lease, made.id, 3, 10, "third page").ok
    assert client.show(made.id).progress == Progress(3, 10, "third page")
    client.settle(lease, [(made.id, Release())])
    with pytest.raises(LeaseLost) as why:
        client.renew(lease)
    assert (why.value.status, why.value.written) == (409, "no")
    [late] = client.settle(lease, [(made.id, Complete())])
    assert not late.ok
    assert client.show(made.id).status == "pending"


def test_a_lease_that_has_run_out_settles_nothing(
    client: Client, quick: Callable[..., str]
) -> None:
    queue = quick()
    made = client.enqueue(queue, 1)
    grant = client.claim(queue, lease=0.001)
    assert grant.lease is not None
    again = client.claim(queue, wait=20)
    assert again.items[0].id == made.id
    [late] = client.settle(grant.lease, [(made.id, Complete())])
    assert isinstance(late, Refused)
    assert late.error == "lease_lost"


def test_lists_are_narrowed_and_searched(client: Client, queue: str) -> None:
    client.enqueue_many([NewItem(n, key=f"file-{n}.txt", kind="a") for n in range(5)], queue=queue)
    client.enqueue(queue, 1, kind="b", tenant="acme")
    assert len(list(client.list_items(queue=queue, kind="a", page=2))) == 5
    assert [row.key for row in client.list_items(queue=queue, q="FILE-3")] == ["file-3.txt"]
    assert [row.tenant for row in client.list_items(queue=queue, tenant="acme")] == ["acme"]
    assert list(client.list_items(queue=queue, status=["failed", "completed"])) == []
    page = client.list_page(queue=queue, limit=2)
    assert (len(page.items), page.next is not None) == (2, True)


def test_an_operator_retries_cancels_deletes_and_prioritises(client: Client, queue: str) -> None:
    made = client.enqueue(queue, 1)
    client.prioritise(made.id, 9)
    assert client.show(made.id).priority == 9
    with pytest.raises(Conflict) as why:
        client.delete(made.id)
    assert why.value.code == "still_live"
    assert client.cancel(made.id).id == made.id
    assert client.show(made.id).status == "cancelled"
    clone = client.retry(made.id)
    assert clone.id != made.id
    assert client.show(clone.id).cloned_from == made.id
    assert client.delete(made.id) == 1
    with pytest.raises(NotFound):
        client.show(made.id)


def test_a_paused_queue_hands_out_nothing(client: Client, queue: str) -> None:
    client.enqueue(queue, 1)
    assert client.pause(queue).done
    assert not client.claim(queue)
    [shown] = [one for one in client.queues() if one.queue == queue]
    assert (len(shown.paused), shown.pending, "lease_ms" in shown.settings) == (1, 1, True)
    client.resume(queue)
    assert client.claim(queue)


def test_settings_are_read_changed_and_sent_back(client: Client, queue: str) -> None:
    settings = client.settings(queue)
    settings["max_attempts"] = 7
    client.configure(queue, settings)
    assert client.settings(queue) == settings


def test_a_schedule_is_written_previewed_run_and_removed(client: Client, queue: str) -> None:
    name = f"nightly.{queue}"
    made = client.put_schedule(
        name,
        "30 2 * * *",
        NewItem({"n": 1}, queue=queue),
        time_zone="Europe/Berlin",
        overlap="skip",
    )
    assert (made.name, made.overlap, len(made.next_runs) > 0) == (name, "skip", True)
    assert len(client.preview_schedule(name, count=12)) == 12
    ran = client.run_schedule(name)
    assert (ran.outcome, client.stats(queue=queue).pending) == ("enqueued", 1)
    last = client.schedule(name).last_run
    assert last is not None
    assert last.item == ran.item
    with pytest.raises(Conflict) as why:
        client.put_schedule(name, "@daily", NewItem(queue=queue), revision=made.revision - 1)
    assert why.value.code == "changed"
    assert name in [one.name for one in client.schedules()]
    client.delete_schedule(name, revision=made.revision)
    with pytest.raises(NotFound):
        client.schedule(name)


def test_an_operation_acts_on_many_items(client: Client, queue: str) -> None:
    client.enqueue_many([NewItem(n) for n in range(30)], queue=queue)
    begun = client.operate("cancel", queue=queue, status="pending")

    def done() -> bool:
        return client.operation(begun.id).state == "done"

    eventually(done, "the operation")
    assert client.operation(begun.id).done == 30
    assert begun.id in [one.id for one in client.operations()]
    assert client.stats(queue=queue).cancelled == 30
    with pytest.raises(Invalid):
        client.operate("delete")
    assert client.cancel_operation(begun.id).state == "done"


def test_big_payloads_are_blobs(client: Client, queue: str) -> None:
    data = os.urandom(3_000_000)
    ref = client.put_blob(data)
    assert ref.length == len(data)
    assert client.get_blob(ref.sha256) == data
    client.enqueue(queue, payload_ref=ref, content_type="application/pdf")
    lease, grant = claimed(client, queue)
    assert grant.items[0].payload_ref == ref
    assert client.payload_of(lease, grant.items[0].id) == data
    large = client.enqueue(queue, {"text": "x" * 100_000})
    lease, grant = claimed(client, queue)
    assert isinstance(grant.items[0].payload_ref, BlobRef)
    assert client.payload_of(lease, large.id) == {"text": "x" * 100_000}
    with pytest.raises(NotFound):
        client.get_blob("0" * 64)


def test_health_and_workers_are_shown(client: Client, queue: str) -> None:
    health = client.health()
    assert health.status in ("green", "yellow", "red")
    assert {check.check for check in health.checks} >= {"store", "serving"}
    client.enqueue(queue, 1)
    claimed(client, queue)
    assert "w1" in [worker.name for worker in client.workers()]


def test_what_has_no_method_can_be_asked_for(client: Client) -> None:
    assert client.request("GET", "/resources") == []
    done = client.request("PUT", "resources/mail", {"rate": {"count": 5, "per_ms": 1000}})
    assert done["done"] is True


def test_bad_input_is_refused_with_its_field(client: Client, queue: str) -> None:
    with pytest.raises(Invalid) as why:
        client.enqueue(queue, 1, priority=99)
    assert (why.value.code, why.value.status, why.value.written) == ("invalid", 422, "no")
    assert "priority" in why.value.detail
    with pytest.raises(Invalid):
        client.claim(queue, max=0)
    with pytest.raises(Invalid):
        client.settle("7f8cf7a9-0000-4000-8000-000000000000", [])
    with pytest.raises(NotFound):
        client.explain("01a1e554-9c99-7001-b210-29840971dd42")


def test_a_request_that_is_too_large_is_told_so_at_once(client: Client, queue: str) -> None:
    with pytest.raises(Invalid) as why:
        client.enqueue(queue, "x" * (17 * 1024 * 1024))
    assert why.value.code == "too_large"
    assert "put_blob" in why.value.detail


def test_a_time_in_words_is_refused_and_says_what_one_is(client: Client, queue: str) -> None:
    with pytest.raises(Invalid, match="seconds, or a timedelta, and not '5m'"):
        client.enqueue(queue, 1, delay="5m")  # type: ignore[arg-type]


def test_strange_names_arrive_whole(client: Client, queue: str) -> None:
    strange = f"{queue}/../ü?#%20"
    made = client.enqueue(strange, 1)
    assert client.show(made.id).queue == strange
    assert client.settings(strange)["max_attempts"] == 3


def test_the_environment_says_where_the_server_is(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WINDROW_SERVER", server.url)
    with Client() as client:
        assert client.health().status
    token = tmp_path / "token"
    token.write_text("from-a-file\n")
    monkeypatch.setenv("WINDROW_TOKEN_FILE", str(token))
    assert Client()._options.bearer == "Bearer from-a-file"
    monkeypatch.setenv("WINDROW_TOKEN", "from-the-environment")
    assert Client()._options.bearer == "Bearer from-the-environment"
    assert Client(token="mine")._options.bearer == "Bearer mine"
    monkeypatch.delenv("WINDROW_TOKEN")
    token.write_text("\n")
    with pytest.raises(ValueError, match="is empty"):
        Client()


def test_the_methods_can_be_looked_up() -> None:
    assert Client.enqueue.__doc__ is not None
    assert "on disk" in Client.enqueue.__doc__
    assert Client.claim.__name__ == "claim"
