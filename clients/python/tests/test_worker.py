"""Workers in this process, against a real server."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from serving import PATIENCE_S, Proxy, Server, eventually
from windrow import (
    Child,
    Client,
    Complete,
    Fail,
    Item,
    Job,
    LeaseLost,
    NewItem,
    Release,
    Retry,
    Skip,
    Snooze,
    Split,
    Unauthorized,
    Worker,
    run,
    worker,
)


def ended(client: Client, id: str) -> Item | None:
    item = client.show(id)
    return item if item.status not in ("pending", "processing") else None


def test_what_a_handler_returns_is_the_result(client: Client, queue: str) -> None:
    @worker(queue, client=client)
    def double(job: Job[Any]) -> dict[str, int]:
        """Doubles a number."""
        return {"doubled": job.payload["n"] * 2}

    made = client.enqueue(queue, {"n": 21})
    double.run(drain=True)
    item = client.show(made.id)
    assert (item.status, item.result) == ("completed", {"doubled": 42})
    assert double.endings == {"completed": 1}
    assert double.__doc__ == "Doubles a number."


def test_what_a_handler_raises_decides(client: Client, quick: Callable[..., str]) -> None:
    queue = quick(max_attempts=2)
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    outcomes: dict[str, Exception] = {
        "fail": Fail("no such file", class_="gone"),
        "skip": Skip("not today"),
        "release": Release(delay=3600),
        "snooze": Snooze(later),
        "retry": Retry("try later", delay=3600),
        "bug": KeyError("width"),
    }

    @worker(queue, concurrency=3, client=client)
    def raises(job: Job[str]) -> None:
        raise outcomes[job.payload]

    ids = {name: client.enqueue(queue, name).id for name in outcomes}
    with raises:
        bug = eventually(lambda: ended(client, ids["bug"]), "the end of the attempts")
        for name in ("fail", "skip"):
            eventually(lambda name=name: ended(client, ids[name]))  # type: ignore[misc]

        def waits() -> bool:
            return all(client.show(ids[name]).not_before for name in ("release", "snooze", "retry"))

        eventually(waits, "all to be put off")
    items = {name: client.show(id) for name, id in ids.items()}
    assert bug.error is not None
    assert bug.error.message.startswith("KeyError: 'width'\n  at raises (test_worker.py:")
    assert (bug.status, bug.attempts, bug.error.class_) == ("failed", 2, "other")
    failed = items["fail"].error
    assert failed is not None
    assert (failed.class_, failed.message) == ("gone", "no such file")
    assert items["skip"].reason == "not today"
    assert [items[name].attempts for name in ("release", "snooze", "retry")] == [0, 0, 1]


def test_coroutines_run_at_once_and_are_told_of_by_name(client: Client, queue: str) -> None:
    together = 0
    most = 0

    @worker(queue, concurrency=8, client=client, name=f"tasks-{queue}")
    async def slow(job: Job[int]) -> int:
        nonlocal together, most
        together += 1
        most = max(most, together)
        while most < 8:
            await asyncio.sleep(0.001)
        together -= 1
        return job.payload

    answers = client.enqueue_many([NewItem(n) for n in range(24)], queue=queue)
    slow.run(drain=True)
    assert most == 8
    items = [client.show(answer.id) for answer in answers if answer.ok]
    assert [item.result for item in items] == list(range(24))
    assert {item.log[0].worker for item in items} == {f"tasks-{queue}"}


def test_a_worker_in_a_loop_uses_that_loop(client: Client, queue: str) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loops: list[asyncio.AbstractEventLoop] = []

        @worker(queue, client=client)
        async def look(job: Job[int]) -> None:
            loops.append(asyncio.get_running_loop())

        client.enqueue(queue, 1)
        async with look:
            while look.endings != {"completed": 1}:
                await asyncio.sleep(0.01)
        client.enqueue(queue, 2)
        await asyncio.wait_for(look.run_async(drain=True), PATIENCE_S)
        assert loops == [loop, loop]

    asyncio.run(main())


def test_batches_are_settled_each(client: Client, queue: str) -> None:
    sizes: list[int] = []

    @worker(queue, batch=100, client=client)
    def all_of(jobs: list[Job[int]]) -> list[Any]:
        sizes.append(len(jobs))
        return [Fail("odd") if job.payload % 2 else job.payload for job in jobs]

    client.enqueue_many([NewItem(n) for n in range(250)], queue=queue)
    all_of.run(drain=True)
    assert sizes == [100, 100, 50]
    assert all_of.endings == {"completed": 125, "failed": 125}


def test_a_batch_of_coroutines_may_say_nothing_or_too_little(
    client: Client, quick: Callable[..., str]
) -> None:
    queue = quick(max_attempts=1)

    @worker(queue, batch=10, client=client)
    async def all_of(jobs: list[Job[str]]) -> Any:
        return None if jobs[0].payload == "fine" else ["too", "many", "words"]

    fine = client.enqueue(queue, "fine")
    all_of.run(drain=True)
    other = client.enqueue(queue, "other")
    all_of.run(drain=True)
    assert client.show(fine.id).status == "completed"
    error = client.show(other.id).error
    assert error is not None
    assert "neither None nor a list" in error.message


@dataclass
class Thumb:
    path: str
    width: int

    @staticmethod
    def of(json: Any) -> Thumb:
        return Thumb(str(json["path"]), int(json["width"]))


def test_payloads_are_decoded_and_what_is_not_understood_is_bad_data(
    client: Client, queue: str
) -> None:
    seen: list[Thumb] = []

    @worker(queue, decode=Thumb.of, client=client)
    def make(job: Job[Thumb]) -> None:
        seen.append(job.payload)

    client.enqueue(queue, {"path": "cat.jpg", "width": "200"})
    bad = client.enqueue(queue, {"path": "dog.jpg"})
    make.run(drain=True)
    assert seen == [Thumb("cat.jpg", 200)]
    error = client.show(bad.id).error
    assert error is not None
    assert (error.class_, "KeyError: 'width'" in error.message) == ("bad_data", True)


def test_large_payloads_are_fetched_and_routes_are_travelled(client: Client, queue: str) -> None:
    @worker(queue, client=client, concurrency=2)
    def step(job: Job[Any]) -> Any:
        if job.stage == "count":
            return len(job.payload)
        assert job.is_last_stage
        return {"counted": job.input}

    texts = [client.enqueue(queue, "x" * 100_000, route=["count", "tell"]).id]
    texts.append(client.enqueue(queue, b"\x00" * 100_000, route=["count", "tell"]).id)
    step.run(drain=True)
    assert [client.show(id).result for id in texts] == [{"counted": 100_000}] * 2


def test_a_split_of_thousands_goes_in_slices(client: Client, queue: str) -> None:
    @worker(queue, client=client, concurrency=4, prefetch=500)
    def parts(job: Job[Any]) -> Any:
        if job.kind == "part":
            return None
        return Split([Child(n, "part", n) for n in range(2500)])

    made = client.enqueue(queue, "book")
    parts.run(drain=True)
    item = client.show(made.id)
    assert item.children is not None
    assert (item.status, item.children.completed) == ("completed", 2500)


def test_an_outcome_that_cannot_be_told_fails_the_item(client: Client, queue: str) -> None:
    @worker(queue, client=client, concurrency=3, prefetch=10)
    def strange(job: Job[str]) -> Any:
        results = {"object": object(), "large": "x" * 100_000, "fine": 1}
        return results[job.payload]

    ids = {name: client.enqueue(queue, name).id for name in ("object", "large", "fine")}
    strange.run(drain=True)
    for name, words in (("object", "cannot be sent"), ("large", "was refused")):
        item = client.show(ids[name])
        assert item.error is not None
        assert (item.status, words in item.error.message) == ("failed", True)
    assert client.show(ids["fine"]).status == "completed"


def test_a_job_may_settle_itself_early(client: Client, queue: str) -> None:
    going_on = threading.Event()

    @worker(queue, client=client)
    def early(job: Job[int]) -> str:
        job.settle(Complete("early"))
        assert going_on.wait(PATIENCE_S)
        return "late"

    made = client.enqueue(queue, 1)
    with early:
        item = eventually(lambda: ended(client, made.id), "an early end")
        going_on.set()
    assert item.result == "early"


def test_a_slow_handler_keeps_its_lease_even_if_it_blocks_the_loop(
    client: Client, quick: Callable[..., str]
) -> None:
    queue = quick()
    attempts: list[int] = []

    @worker(queue, client=client, lease=0.6)
    async def blocks(job: Job[int]) -> str:
        attempts.append(job.attempt)
        # As no coroutine should: heartbeats must not depend on the loop.
        began = time.monotonic()
        while time.monotonic() - began < 2.0 and not job.cancelled:
            time.sleep(0.01)  # noqa: ASYNC251
        return "done"

    made = client.enqueue(queue, 1)
    blocks.run(drain=True)
    item = client.show(made.id)
    assert (attempts, item.status, item.result, item.attempts) == ([1], "completed", "done", 1)


def test_progress_is_seen_while_the_work_goes_on(client: Client, queue: str) -> None:
    seen = threading.Event()

    @worker(queue, client=client)
    def counts(job: Job[int]) -> None:
        for n in range(1000):
            job.progress(n + 1, 1000, f"page {n + 1}")
        assert seen.wait(PATIENCE_S)

    made = client.enqueue(queue, 1)
    with counts:

        def told() -> bool:
            progress = client.show(made.id).progress
            return progress is not None and progress.current == 1000

        eventually(told, "progress")
        seen.set()


@pytest.mark.parametrize("form", ["thread", "task"])
def test_a_cancelled_item_is_told_to_its_handler_and_its_outcome_is_dropped(
    client: Client, queue: str, form: str
) -> None:
    begun, heard = threading.Event(), threading.Event()

    def thread(job: Job[int]) -> str:
        begun.set()
        assert job.wait_cancelled(PATIENCE_S)
        with pytest.raises(LeaseLost):
            job.check()
        heard.set()
        return "nobody hears this"

    async def task(job: Job[int]) -> None:
        begun.set()
        try:
            await asyncio.sleep(PATIENCE_S)
        except asyncio.CancelledError:
            heard.set()
            raise

    working = Worker[int](thread if form == "thread" else task, queue, client=client, lease=0.5)
    made = client.enqueue(queue, 1)
    with working:
        assert begun.wait(PATIENCE_S)
        client.cancel(made.id)
        assert heard.wait(PATIENCE_S)
        begun.clear()
        other = client.enqueue(queue, 2)
        assert begun.wait(PATIENCE_S), "the worker goes on"
        client.cancel(other.id)
    item = client.show(made.id)
    assert (item.status, item.result) == ("cancelled", None)
    assert working.endings == {}


def test_a_lease_that_is_lost_is_told_and_somebody_else_settles(
    proxy: Proxy, client: Client, quick: Callable[..., str]
) -> None:
    """The line to the server is dead for longer than the lease; the item goes to another."""
    queue = quick()
    begun, lost = threading.Event(), threading.Event()

    def holds(job: Job[int]) -> str:
        begun.set()
        assert job.wait_cancelled(PATIENCE_S)
        lost.set()
        return "too late"

    made = client.enqueue(queue, 1)
    with Client(proxy.url) as cut_off:
        working = Worker[int](holds, queue, client=cut_off, lease=0.5, grace=0)
        working.start()
        assert begun.wait(PATIENCE_S)
        proxy.loses = 1_000_000
        assert lost.wait(PATIENCE_S)
        grant = client.claim(queue, wait=20)
        assert grant.lease is not None
        client.settle(grant.lease, [(made.id, Complete("in time"))])
        proxy.loses = 0
        working.stop()
    assert client.show(made.id).result == "in time"


def test_a_handler_that_goes_on_after_its_item_is_lost_keeps_no_item_from_others(
    client: Client, queue: str
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    @worker(queue, client=client, lease=0.5)
    def stubborn(job: Job[int]) -> None:
        begun.set()
        assert job.wait_cancelled(PATIENCE_S)
        assert may_end.wait(PATIENCE_S)

    made = client.enqueue(queue, 1)
    with stubborn:
        assert begun.wait(PATIENCE_S)
        client.cancel(made.id)
        eventually(lambda: client.show(made.id).status == "cancelled", "the end")
        engine = stubborn._engine
        assert engine is not None
        eventually(lambda: not engine.hand._running, "the word of it")
        other = client.enqueue(queue, 2)
        grant = client.claim(queue, wait=20)
        assert [work.id for work in grant.items] == [other.id]
        may_end.set()


@pytest.mark.parametrize("form", ["thread", "task"])
def test_what_no_handler_gets_takes_no_place(client: Client, queue: str, form: str) -> None:
    async def task(job: Job[int]) -> int:
        return job.payload

    def thread(job: Job[int]) -> int:
        return job.payload

    handler: Callable[[Any], Any] = task if form == "task" else thread
    ids = [client.enqueue(queue, word).id for word in ("no", "no number", "7")]
    with Worker[int](handler, queue, decode=int, client=client):
        items = [eventually(lambda id=id: ended(client, id), "its end") for id in ids]  # type: ignore[misc]
    assert [item.status for item in items] == ["failed", "failed", "completed"]
    assert items[-1].result == 7


def test_a_coroutine_that_cannot_be_called_fails_like_any_other(
    client: Client, quick: Callable[..., str]
) -> None:
    """The slot ended with the error, and the item was renewed for ever."""
    queue = quick(max_attempts=1)

    async def of_nothing() -> None:
        return None

    ids = [client.enqueue(queue, n).id for n in range(2)]
    with Worker[int](of_nothing, queue, client=client):  # type: ignore[arg-type]
        items = [eventually(lambda id=id: ended(client, id), "its end") for id in ids]  # type: ignore[misc]
    for item in items:
        assert item.error is not None
        assert "takes 0 positional arguments" in item.error.message


def test_a_stop_hands_back_what_has_not_begun_and_waits_for_what_has(
    client: Client, queue: str
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    @worker(queue, client=client, prefetch=5)
    def slow(job: Job[int]) -> None:
        begun.set()
        assert may_end.wait(PATIENCE_S)

    ids = [client.enqueue(queue, n).id for n in range(4)]
    slow.start()
    assert begun.wait(PATIENCE_S)

    def others_wait() -> bool:
        return client.stats(queue=queue).processing == 4

    eventually(others_wait, "the others to be in hand")
    stopping = threading.Thread(target=slow.stop)
    stopping.start()
    eventually(lambda: client.stats(queue=queue).pending == 3, "the others to come back")
    may_end.set()
    stopping.join(PATIENCE_S)
    assert not stopping.is_alive()
    items = [client.show(id) for id in ids]
    assert [item.status for item in items] == ["completed", "pending", "pending", "pending"]
    assert [item.attempts for item in items[1:]] == [0, 0, 0]


def test_after_the_grace_what_still_runs_is_handed_back_too(client: Client, queue: str) -> None:
    begun, heard = threading.Event(), threading.Event()

    @worker(queue, client=client, grace=0.1)
    def stuck(job: Job[int]) -> None:
        begun.set()
        assert job.wait_cancelled(PATIENCE_S)
        heard.set()

    made = client.enqueue(queue, 1)
    with stuck:
        assert begun.wait(PATIENCE_S)
    assert heard.wait(PATIENCE_S)
    item = client.show(made.id)
    assert (item.status, item.attempts) == ("pending", 0)


def test_a_stop_while_waiting_for_work_is_quick_and_takes_nothing_along(
    client: Client, queue: str
) -> None:
    @worker(queue, client=client, wait=60, name=f"idle-{queue}")
    def never(job: Job[int]) -> None:
        raise AssertionError("nothing was to be done")

    def waiting() -> bool:
        return any(one.name == f"idle-{queue}" and one.waiting for one in client.workers())

    for n in range(5):
        never.start()
        eventually(waiting, "a waiting claim")
        began = time.monotonic()
        never.stop()
        assert time.monotonic() - began < 10
        made = client.enqueue(queue, n)
        grant = client.claim(queue)
        assert [work.id for work in grant.items] == [made.id]
        assert grant.items[0].attempt == 1


def test_a_worker_goes_on_when_its_server_was_killed(own_server: Server, queue: str) -> None:
    """Killed again and again while a worker drains: every item is completed, and once."""
    done: list[int] = []

    with Client(own_server.url) as client:
        client.enqueue_many([NewItem(n) for n in range(600)], queue=queue)

        @worker(queue, client=client, concurrency=2, prefetch=20, lease=30)
        def work(job: Job[int]) -> int:
            done.append(job.payload)
            return job.payload

        with work:
            for enough in (50, 200, 350):
                eventually(lambda enough=enough: len(done) >= enough, "some work")  # type: ignore[misc]
                own_server.kill()
                own_server.start()
            eventually(lambda: client.stats(queue=queue).completed == 600, "all the work")
        stats = client.stats(queue=queue)
    assert (stats.completed, stats.failed, stats.pending) == (600, 0, 0)
    assert sorted(done) == list(range(600)), "no item was handed out twice"


def test_a_worker_waits_for_a_server_that_is_down_at_the_start(
    own_server: Server, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(own_server.url) as client:
        made = client.enqueue(queue, 1)
        own_server.kill()

        @worker(queue, client=client)
        def work(job: Job[int]) -> int:
            return job.payload

        with work:
            own_server.start()
            eventually(lambda: ended(client, made.id), "the work")


def test_a_worker_with_a_wrong_token_ends_with_that_error(own_server: Server, queue: str) -> None:
    own_server.stop()
    own_server.token("worker")
    own_server.start()
    with Client(own_server.url, token="wrong-token") as client:
        nobody = Worker[int](lambda job: None, queue, client=client)
        with pytest.raises(Unauthorized):
            nobody.run()
        with pytest.raises(Unauthorized), nobody:
            eventually(lambda: nobody.failure, "the refusal")


def test_several_workers_run_in_one_process(client: Client, queue: str) -> None:
    first = Worker[int](lambda job: "first", f"{queue}-1", client=client)
    second = Worker[int](lambda job: "second", f"{queue}-2", client=client)
    ids = [client.enqueue(f"{queue}-{n}", n).id for n in (1, 2)]
    run(first, second, drain=True)
    assert [client.show(id).result for id in ids] == ["first", "second"]


def test_threads_of_a_worker_end_with_it(client: Client, queue: str) -> None:
    before = threading.active_count()
    for form in ("thread", "task"):

        async def task(job: Job[int]) -> None:
            return None

        handler: Callable[[Any], Any] = task if form == "task" else (lambda job: None)
        with Worker[int](handler, queue, client=client, concurrency=4):
            client.enqueue(queue, 1)
    eventually(lambda: threading.active_count() <= before, "the end of all threads")


@pytest.mark.parametrize(
    "options", [{"concurrency": 0}, {"prefetch": -1}, {"lease": 0}, {"lease": 50_000}]
)
def test_a_worker_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"at least|lasts"):
        Worker[int](lambda job: None, "q", **options)
    with pytest.raises(ValueError, match="batch"):
        Worker[int](lambda job: None, "q", batch=1001)
    with pytest.raises(TypeError, match="colour"):
        Worker[int](lambda job: None, "q", colour="red")  # type: ignore[call-arg]


def test_a_handler_is_an_ordinary_function_for_its_tests() -> None:
    @worker("anything")
    def double(number: Any) -> int:
        return int(number) * 2

    assert double(21) == 42
    assert double.handler(21) == 42
    logging.getLogger("windrow").debug("no server was asked")
