"""The threads of a worker: one claims, one renews, two settle, and slots do the work.

Renewing has a thread of its own, so that a handler that blocks, or holds the event loop, does not
lose its lease. Settles wait for no clock: a settler sends what gathered while the last request
was under way.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from . import _verbs as v
from ._call import Call, named
from ._hand import AnyJob, Hand, Told
from ._parts import parts_of
from ._repeat import AWAY_S, EMPTY_S, Rests
from .answers import Grant, Progress, Refused, Settled
from .client import Client, Cut
from .errors import (
    Invalid,
    LeaseLost,
    NotFound,
    Overloaded,
    Unavailable,
    Unreachable,
    WindrowError,
)
from .job import Job
from .outcomes import Fail, Outcome, Release

T = TypeVar("T")

log = logging.getLogger("windrow")

#: How long one round of asking for work goes on.
CLAIM_WITHIN_S = 10.0
SETTLERS = 2
#: How long handing back may take once the work has ended.
HAND_BACK_S = 10.0
_CLAIM_ITEMS_MAX = 1000


@dataclass(frozen=True)
class Plan:
    """How a worker works."""

    queues: tuple[str, ...]
    stages: tuple[str, ...]
    kinds: tuple[str, ...]
    tenants: tuple[str, ...]
    name: str
    concurrency: int
    batch: int | None
    prefetch: int
    lease_s: float
    wait_s: float
    grace_s: float


class Slots(Protocol):
    """Where handlers run."""

    def start(self) -> None: ...

    def put(self, jobs: list[AnyJob]) -> None: ...

    def stop(self) -> None: ...


class _Away:
    """Says once that the server does not answer, once that it has no work, and when that is over.

    One that turns claims away renews leases all the same, so that the two are kept apart.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._is_away = False
        self._has_no_work = False

    def missed(self, why: WindrowError) -> None:
        # Whoever answers that it cannot is there.
        if isinstance(why, Unreachable):
            with self._lock:
                if not self._is_away:
                    self._is_away = True
                    log.warning("%s does not answer, asking again: %s", self._server, why)

    def turned_away(self, why: WindrowError) -> None:
        # Of one that does not answer it was said.
        if not isinstance(why, Unreachable):
            with self._lock:
                if not self._has_no_work:
                    self._has_no_work = True
                    log.warning("no work from %s, asking again: %s", self._server, why)

    def answered(self, claim: bool) -> None:
        with self._lock:
            is_over = self._is_away or (claim and self._has_no_work)
            self._is_away = False
            self._has_no_work = self._has_no_work and not claim
            if is_over:
                log.info("%s is back", self._server)


class Engine:
    """One run of a worker, from start to stop."""

    def __init__(
        self, client: Client, plan: Plan, slots: Callable[[Engine], Slots], drain: bool
    ) -> None:
        self.client = client
        self.plan = plan
        size = plan.batch or 1
        limit = plan.concurrency * size + plan.prefetch
        self.hand = Hand(limit, size, plan.lease_s)
        self.endings: dict[str, int] = {}
        self.failure: WindrowError | None = None
        #: There is nothing more to do: it drained its queues, or failed.
        self.ended = threading.Event()
        self._drain = drain
        self._cut = Cut()
        self._no_grace = threading.Event()
        self._slots = slots(self)
        self._count = threading.Lock()
        self._away = _Away(client.server)
        self._threads = [
            self._thread("claim", self._claims),
            self._thread("renew", self._beats),
            *(self._thread(f"settle-{n}", self._settles) for n in range(SETTLERS)),
        ]

    def start(self) -> None:
        self._slots.start()
        for thread in self._threads:
            thread.start()

    def stop(self, grace_s: float | None = None) -> None:
        """Claims nothing more, lets what runs end within the grace, and hands back the rest."""
        grace = self.plan.grace_s if grace_s is None else grace_s
        log.info("stopping; what runs has %g s to end", grace)
        self.hand.close()
        self._cut.now()
        release = parts_of(Release())
        unbegun = self.hand.hand_back(release, also_running=False)
        deadline = time.monotonic() + grace
        while not self._no_grace.is_set() and time.monotonic() < deadline:
            # In slices, so that a second signal is heard.
            if self.hand.wait_until(False, min(deadline, time.monotonic() + 0.1)):
                break
        running = self.hand.hand_back(release, also_running=True)
        if unbegun or running:
            log.info(
                "handed back %d items, %d of them begun", len(unbegun) + len(running), len(running)
            )
        within = 2.0 if self._no_grace.is_set() else HAND_BACK_S
        end = time.monotonic() + within
        claimer = self._threads[0]
        claimer.join(max(end - time.monotonic(), 0.0))
        self.hand.wait_until(True, end)
        left = self.hand.abandon()
        if left:
            log.warning("%d items come back when their lease runs out", len(left))
        self._slots.stop()
        for thread in self._threads:
            thread.join(1.0)
        self.ended.set()

    def hurry(self) -> None:
        """Ends the grace of a stop that is under way."""
        self._no_grace.set()

    def report(self, job: AnyJob, progress: Progress) -> None:
        self.hand.report(job, progress)

    def end(self, job: AnyJob, outcome: Outcome) -> None:
        """Takes the outcome of a job."""
        try:
            parts = parts_of(outcome)
        except Invalid as why:
            parts = parts_of(Fail(f"the outcome cannot be sent: {why.detail}"))
        if not self.hand.end(job, parts):
            log.debug("the outcome of %s is dropped", job.id)

    def _ask(self, call: Call[T], within: float, cut: Cut | None = None, claim: bool = False) -> T:
        """Asks, and lets the log know if the server is away, and when it is back."""
        try:
            answer = self.client.ask(call, within=within, cut=cut, missed=self._away.missed)
        except (Cut.Off, Unavailable, Overloaded):
            raise
        except WindrowError as why:
            # A refusal is an answer; what was refused here is none.
            if why.status is not None:
                self._away.answered(claim)
            raise
        self._away.answered(claim)
        return answer

    # Claiming

    def _claims(self) -> None:
        rests = Rests(EMPTY_S)
        while room := self.hand.wait_for_room():
            began = time.monotonic()
            grant = self._claim(min(room, _CLAIM_ITEMS_MAX))
            if grant is None:
                continue
            if grant.lease is not None:
                rests.over()
                self._take(grant, began)
            elif not self._drain:
                # What an answer took beyond the wait is no rest for a server that is slow.
                waited = min(time.monotonic() - began, self.plan.wait_s)
                self._cut.waits(rests.after_empty(waited))
            elif self._drained():
                return

    def _drained(self) -> bool:
        """Nothing is left to claim; whether nothing is left in hand either."""
        self.hand.wait_until(True, float("inf"))
        began = time.monotonic()
        grant = self._claim(1, wait_s=0.0)
        if grant is not None and grant.lease is not None:
            self._take(grant, began)
            return False
        self.ended.set()
        return True

    def _claim(self, room: int, wait_s: float | None = None) -> Grant | None:
        """Asks for work until there is an answer, under one id: nothing is claimed twice."""
        id = named(None)
        wait = 0.0 if self._drain else self.plan.wait_s
        call = self._claim_call(room, wait if wait_s is None else wait_s, id)
        rests = Rests(AWAY_S)
        while True:
            try:
                return self._ask(call, CLAIM_WITHIN_S, cut=self._cut, claim=True)
            except Cut.Off:
                break
            except (Unavailable, Overloaded) as why:
                self._away.turned_away(why)
                if self._cut.waits(rests.after_error(why)):
                    break
            except WindrowError as why:
                log.error("no work from %s: %s", self.client.server, why)
                self.failure = why
                self.hand.close()
                self.ended.set()
                return None
        self._after_cut(self._claim_call(room, 0.0, id))
        return None

    def _claim_call(self, room: int, wait_s: float, id: str) -> Call[Grant]:
        plan = self.plan
        return v.claim(
            plan.queues, max=room, wait=wait_s, worker=plan.name, lease=plan.lease_s,
            stages=plan.stages, kinds=plan.kinds, tenants=plan.tenants, request_id=id,
        )  # fmt: skip

    def _after_cut(self, call: Call[Grant]) -> None:
        """A claim that was cut off may have been granted: then what it took goes back at once."""
        try:
            grant = self.client.ask(call, within=2.0)
        except WindrowError as why:
            log.debug("a claim was cut off, and it is not known what it took: %s", why)
            return
        if grant.lease is not None:
            self._give_back(grant)

    def _give_back(self, grant: Grant) -> None:
        assert grant.lease is not None
        outcomes: list[tuple[str, Outcome]] = [(work.id, Release()) for work in grant.items]
        try:
            self._ask(v.settle(grant.lease, outcomes), HAND_BACK_S)
        except WindrowError as why:
            log.warning("%d items come back when their lease runs out: %s", len(outcomes), why)

    def _take(self, grant: Grant, began: float) -> None:
        assert grant.lease is not None
        jobs: list[AnyJob] = []
        for work in grant.items:
            job: AnyJob = Job(work, grant.lease)
            job._report, job._settle = self.report, self.end
            jobs.append(job)
        if time.monotonic() - began > self.plan.lease_s / 3:
            # The answer may be a repeat of one that is old by now.
            held = self._still_held(grant.lease)
            if held is None:
                # Nobody knows whether it is still ours, so nobody begins it.
                self._give_back(grant)
                return
            jobs = [job for job in jobs if job.id in held]
        if not jobs:
            return
        if self.hand.add(grant.lease, jobs):
            self._slots.put(jobs)
        else:
            self._give_back(grant)

    def _still_held(self, lease: str) -> set[str] | None:
        """What a lease still holds; None if nobody knows."""
        try:
            call = v.renew(lease, for_=self.plan.lease_s)
            return set(self._ask(call, self.plan.lease_s / 2).held)
        except (LeaseLost, NotFound) as why:
            log.warning("what was claimed is lost already: %s", why)
            return set()
        except WindrowError as why:
            log.warning("it is not known whether what was claimed is still ours: %s", why)
            return None

    # Renewing

    def _beats(self) -> None:
        while (beat := self.hand.next_beat()) is not None:
            due, told = beat
            for lease in due:
                sent = time.monotonic()
                lost: list[AnyJob]
                try:
                    call = v.renew(lease.id, for_=self.plan.lease_s)
                    answer = self._ask(call, self.plan.lease_s / 2)
                    lost = self.hand.renewed(lease, sent, answer.held)
                except WindrowError as why:
                    log.debug("a lease was not renewed: %s", why)
                    lost = self.hand.not_renewed(lease, isinstance(why, LeaseLost))
                for job in lost:
                    log.warning("%s is not ours any more: lost or cancelled", job.id)
            for id, of in told:
                try:
                    self._ask(v.progress_many(id, of.items()), self.plan.lease_s / 2)
                except WindrowError as why:
                    log.debug("progress was not told: %s", why)

    # Settling

    def _settles(self) -> None:
        while (gathered := self.hand.next_settle()) is not None:
            lease, told = gathered
            try:
                self._settle(lease, told)
            except Exception:
                log.exception("a bug of ours while settling")
                self.hand.settled(one.job for one in told)

    def _settle(self, lease: str, told: list[Told]) -> None:
        try:
            for part in told[0].parts[:-1]:
                # A large split: its first children go ahead, and the lease is kept.
                [first] = self._asked(_settle_call(lease, [(told[0].job.id, part)]))
                if isinstance(first, Refused):
                    self._refused_together(lease, told, first.as_error())
                    return
            call = _settle_call(lease, [(one.job.id, one.parts[-1]) for one in told])
            answers = self._asked(call)
        except (Unavailable, Overloaded) as why:
            log.warning("%d outcomes could not be told: %s", len(told), why)
            self.hand.settled(one.job for one in told)
            return
        except WindrowError as why:
            self._refused_together(lease, told, why)
            return
        over = []
        for one, answer in zip(told, answers, strict=True):
            if isinstance(answer, Settled):
                with self._count:
                    self.endings[answer.ending] = self.endings.get(answer.ending, 0) + 1
                over.append(one.job)
            elif not self._refused(one, answer):
                over.append(one.job)
        self.hand.settled(over)

    def _asked(self, call: Call[list[Settled | Refused]]) -> list[Settled | Refused]:
        """Settles, asking again under the same id as long as the lease may last."""
        until, rests = time.monotonic() + self.plan.lease_s, Rests(AWAY_S)
        while True:
            try:
                return self._ask(call, max(until - time.monotonic(), 0.0))
            except (Unavailable, Overloaded) as why:
                rest = rests.after_error(why)
                if time.monotonic() + rest >= until:
                    raise
            time.sleep(rest)

    def _refused_together(self, lease: str, told: list[Told], why: WindrowError) -> None:
        """A whole request was refused: each item is asked for alone, to find the one."""
        if isinstance(why, LeaseLost):
            log.warning("%d outcomes came too late: %s", len(told), why)
            self.hand.settled(one.job for one in told)
        elif len(told) > 1:
            for one in told:
                self._settle(lease, [one])
        elif not self._refused(told[0], Refused(why.code, why.detail)):
            self.hand.settled([told[0].job])

    def _refused(self, told: Told, answer: Refused) -> bool:
        """Whether the item is told of in other words: it must not wait for its lease to end."""
        if answer.error in ("lease_lost", "not_found"):
            log.warning("the outcome of %s came too late: %s", told.job.id, answer.detail)
            return False
        log.error("the outcome of %s was refused: %s: %s", told.job.id, answer.error, answer.detail)
        if told.is_second:
            return False
        failed = parts_of(Fail(f"its outcome was refused: {answer.error}: {answer.detail}"))
        self.hand.again(Told(told.job, failed, is_second=True))
        return True

    @staticmethod
    def _thread(what: str, run: Callable[[], None]) -> threading.Thread:
        # A daemon: a handler or a request that hangs must not keep the process alive.
        return threading.Thread(target=run, name=f"windrow-{what}", daemon=True)


def _settle_call(lease: str, items: list[tuple[str, bytes]]) -> Call[list[Settled | Refused]]:
    """A settle of outcomes that are JSON already."""
    # Each begins with a brace, before which its id goes.
    said = b",".join(b'{"id":"' + id.encode() + b'",' + part[1:] for id, part in items)
    return v.settle_encoded(lease, b'{"items":[' + said + b"]}")
