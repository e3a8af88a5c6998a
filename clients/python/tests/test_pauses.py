"""A worker whose server has nothing for it, or no time: it asks again, and not without a pause."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from serving import PATIENCE_S, Proxy, Server, eventually
from windrow import (
    Client,
    Invalid,
    Job,
    LeaseLost,
    Overloaded,
    Unavailable,
    Unreachable,
    WindrowError,
    Worker,
    worker,
)
from windrow import _verbs as v
from windrow._call import Call
from windrow._engine import CLAIM_WITHIN_S, Engine
from windrow._hand import AnyJob

T = TypeVar("T")


class Turned(Client):
    """A client whose calls end in an error as long as there is one for their path."""

    def __init__(self, server: str, path: str, why: Callable[[], WindrowError | None]) -> None:
        super().__init__(server)
        self._path, self._why = path, why
        #: When it was asked, and under which id.
        self.asked: list[tuple[float, str | None]] = []

    def ask(self, call: Call[T], **how: Any) -> T:
        if call.path.endswith(self._path):
            self.asked.append((time.monotonic(), call.request_id))
            if (why := self._why()) is not None:
                raise why
        return super().ask(call, **how)


def test_a_worker_that_does_not_wait_for_work_asks_for_it_now_and_then(
    proxy: Proxy, queue: str
) -> None:
    """It asked again and again without a pause, as fast as the server answered."""
    with Client(proxy.url) as client:

        @worker(queue, client=client, wait=0)
        def double(job: Job[int]) -> int:
            return job.payload * 2

        def claims() -> int:
            return sum("/claims " in line for line in proxy.passed)

        began = time.monotonic()
        with double:
            eventually(lambda: claims() >= 8, "some claims")
            assert time.monotonic() - began > 1.1
            made = client.enqueue(queue, 21)
            eventually(lambda: client.show(made.id).result == 42, "the work")


@pytest.mark.parametrize(
    ("why", "least_s"),
    [
        # Of these no call is repeated by itself.
        (lambda: Unavailable("store_full", "the disk is full"), 0.05 + 0.1 + 0.2 + 0.4),
        (lambda: Overloaded("overloaded", "later", retry_after=0.25), 3 * 0.25 + 0.4),
    ],
)
def test_a_claim_that_is_turned_away_is_repeated_after_a_pause_under_its_id(
    client: Client, queue: str, why: Callable[[], WindrowError], least_s: float
) -> None:
    """A full store, or one that said when, was asked again and again without a pause."""
    made = client.enqueue(queue, 1)
    turns = [why() for _ in range(4)]
    turned = Turned(client.server, "/claims", lambda: turns.pop() if turns else None)
    with turned:
        working = Worker[int](lambda job: job.payload, queue, client=turned)
        with working:
            eventually(lambda: client.show(made.id).status == "completed", "the work")
        claims = turned.asked[:5]
    assert claims[-1][0] - claims[0][0] >= least_s
    assert len({id for _, id in claims}) == 1


def test_a_stop_does_not_wait_until_a_busy_server_may_be_asked(client: Client, queue: str) -> None:
    def busy() -> WindrowError:
        return Overloaded("overloaded", "much later", retry_after=3600.0)

    turned = Turned(client.server, "/claims", busy)
    with turned:
        working = Worker[int](lambda job: None, queue, client=turned)
        with working:
            eventually(lambda: turned.asked, "a claim")
            began = time.monotonic()
        assert time.monotonic() - began < 9


@pytest.mark.parametrize("code", ["overloaded", "store_full"])
def test_an_outcome_that_is_turned_away_is_told_again_while_the_lease_lasts(
    client: Client, queue: str, code: str
) -> None:
    """The work was done, and yet its item failed, or came back when the lease had run out."""
    kind = {"overloaded": Overloaded, "store_full": Unavailable}[code]
    turns = [kind(code, "not now", retry_after=0.1) for _ in range(3)]
    made = client.enqueue(queue, 1)
    turned = Turned(client.server, "/settle", lambda: turns.pop() if turns else None)
    with turned:
        working = Worker[int](lambda job: job.payload, queue, client=turned)
        working.run(drain=True)
    item = client.show(made.id)
    assert (item.status, item.attempts, working.endings) == ("completed", 1, {"completed": 1})
    assert len({id for _, id in turned.asked}) == 1


def test_an_outcome_that_is_never_taken_is_left_to_the_lease(client: Client, queue: str) -> None:
    """It was taken for a refusal of the outcome, and the item failed though its work was done."""

    def busy() -> WindrowError:
        return Overloaded("overloaded", "not now", retry_after=0.1)

    made = client.enqueue(queue, 1)
    turned = Turned(client.server, "/settle", busy)
    with turned:
        working = Worker[int](lambda job: None, queue, client=turned, lease=3)
        working.run(drain=True)
    assert working.endings == {}
    assert len({id for _, id in turned.asked}) == 1, "and nothing else was told of it"
    assert client.show(made.id).status in ("pending", "processing")


def test_an_item_that_is_gone_is_told_of_once(client: Client, queue: str) -> None:
    begun, may_end = threading.Event(), threading.Event()
    turned = Turned(client.server, "/settle", lambda: None)

    def slow(job: Job[int]) -> None:
        begun.set()
        assert may_end.wait(PATIENCE_S)

    made = client.enqueue(queue, 1)
    with turned, Worker[int](slow, queue, client=turned) as working:
        assert begun.wait(PATIENCE_S)
        client.cancel(made.id)
        client.delete(made.id)
        may_end.set()
        eventually(lambda: turned.asked, "its outcome")
    assert (len(turned.asked), working.endings) == (1, {})


class Put:
    """Slots in which nobody works."""

    def __init__(self) -> None:
        self.jobs: list[AnyJob] = []

    def start(self) -> None: ...

    def put(self, jobs: list[AnyJob]) -> None:
        self.jobs += jobs

    def stop(self) -> None: ...


@pytest.mark.parametrize(
    ("why", "put", "status"),
    [
        (None, 1, "processing"),
        # Nobody knows whether it is still ours, so nobody begins it.
        (Unreachable("unreachable", "no answer", written="unknown"), 0, "pending"),
        (LeaseLost("lease_lost", "too late"), 0, "processing"),
    ],
)
def test_what_was_claimed_long_ago_is_begun_only_if_it_is_still_ours(
    client: Client, queue: str, why: WindrowError | None, put: int, status: str
) -> None:
    """If that could not be found out, it was not handed back, and waited for its lease to end."""
    made = client.enqueue(queue, 1)
    turned, slots = Turned(client.server, "/renew", lambda: why), Put()
    with turned:
        working = Worker[int](lambda job: None, queue, client=turned)
        engine = Engine(turned, working._plan, lambda _: slots, drain=False)
        grant = client.claim(queue, lease=60)
        engine._take(grant, time.monotonic() - 59)
    item = client.show(made.id)
    assert (len(slots.jobs), item.status, len(turned.asked)) == (put, status, 1)
    assert item.attempts == (0 if status == "pending" else 1)


def test_the_log_says_at_once_that_the_server_is_away_and_when_it_is_back(
    own_server: Server, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An outage shorter than a round of claiming was not in the log at all."""
    caplog.set_level(logging.INFO, "windrow")

    def said(words: str) -> list[str]:
        return [record.levelname for record in caplog.records if words in record.getMessage()]

    with Client(own_server.url) as client:

        def is_done(n: int) -> bool:
            return client.stats(queue=queue).completed == n

        with Worker[int](lambda job: job.payload, queue, client=client):
            for times in (1, 2):
                client.enqueue(queue, times)
                eventually(lambda times=times: is_done(times), "the work")  # type: ignore[misc]
                own_server.kill()
                began = time.monotonic()
                eventually(lambda times=times: len(said("does not answer")) == times, "a warning")  # type: ignore[misc]
                assert time.monotonic() - began < CLAIM_WITHIN_S / 2
                own_server.start()
                eventually(lambda times=times: len(said("is back")) == times, "the other line")  # type: ignore[misc]
    assert said("does not answer") == ["WARNING"] * 2, "once for each outage"
    assert said("is back") == ["INFO"] * 2


@pytest.fixture
def engine(client: Client) -> Iterator[Engine]:
    """One that was not started, of a client that refuses by itself to renew."""
    with Turned(client.server, "/renew", lambda: Invalid("invalid", "cannot be sent")) as local:
        working = Worker[int](lambda job: None, "q", client=local)
        yield Engine(local, working._plan, lambda _: Put(), drain=False)


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().split(" ", 1)[1] for record in caplog.records]


def test_a_server_that_turns_claims_away_is_not_back_because_it_answers_something_else(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """With each lease that was renewed it was back, and with the next claim it had no work."""
    caplog.set_level(logging.INFO, "windrow")
    busy = Overloaded("overloaded", "later", status=429)
    for _ in range(3):
        engine._away.turned_away(busy)
        engine._ask(v.stats(), 10.0)
    assert [line.split(" ", 1)[0] for line in lines_of(caplog)] == ["work"], caplog.text
    engine._ask(v.stats(), 10.0, claim=True)
    engine._ask(v.stats(), 10.0, claim=True)
    assert lines_of(caplog)[1:] == ["is back"]


def test_a_server_that_was_not_asked_is_not_back(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "windrow")
    engine._away.missed(Unreachable("unreachable", "gone"))
    with pytest.raises(Invalid):
        engine._ask(v.renew("00", for_=1.0), 1.0)
    assert "is back" not in lines_of(caplog)
    engine._ask(v.stats(), 10.0)
    assert lines_of(caplog)[1:] == ["is back"]
