"""What a worker has in hand, and what is to be told to the server about it.

Decides what may be claimed, which lease is renewed when, and what goes into the next settle. Asks
nothing of the server and starts no threads; those of the engine meet here, under one lock.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ._parts import SETTLE_BYTES_MAX, SETTLE_ITEMS_MAX
from .answers import Progress
from .job import Job

#: How often one lease's progress is told at most.
PROGRESS_S = 0.2

AnyJob = Job[Any]


@dataclass
class Lease:
    """A lease, and those of its items that are not settled yet."""

    id: str
    jobs: dict[str, AnyJob]
    renew_at: float
    #: When it has certainly run out, if nobody renews it.
    lost_at: float
    progress: dict[str, Progress] = field(default_factory=dict)
    progress_at: float = 0.0


@dataclass
class Told:
    """An outcome on its way to the server: one body, or several for a large split."""

    job: AnyJob
    parts: list[bytes]
    #: The first one was refused.
    is_second: bool = False


class Hand:
    """What a worker has in hand."""

    def __init__(self, limit: int, least: int, lease_s: float) -> None:
        self._limit = limit
        self._least = least
        self._lease_s = lease_s
        self._lock = threading.Lock()
        #: Somebody waits for room, or for everything to be over.
        self.room = threading.Condition(self._lock)
        #: The heart waits for something to renew or to report.
        self.beat = threading.Condition(self._lock)
        #: The settlers wait for outcomes.
        self.post = threading.Condition(self._lock)
        self.closed = False
        self._leases: dict[str, Lease] = {}
        self._outbox: dict[str, deque[Told]] = {}
        self._waiting = 0
        self._running = 0
        #: Jobs whose handlers are at work, also lost ones: they keep their place until it ends.
        self._busy = 0
        self._settling = 0

    # Claiming

    def wait_for_room(self) -> int:
        """How many items may be claimed; 0 if it is over."""
        with self.room:
            while not self.closed and not self._may_claim():
                self.room.wait()
            return 0 if self.closed else self._room() // self._least * self._least

    def _room(self) -> int:
        return self._limit - self._waiting - self._busy

    def _may_claim(self) -> bool:
        room = self._room()
        if room < self._least or self._settling > 2 * max(self._limit, SETTLE_ITEMS_MAX):
            return False
        # With some in reserve it is worth waiting until many fit into one request.
        return self._waiting == 0 or room * 2 >= self._limit

    def add(self, lease: str, jobs: Iterable[AnyJob]) -> bool:
        """Takes what was claimed; False if it is over, and it must go back."""
        now = time.monotonic()
        held = {job.id: job for job in jobs}
        with self.beat:
            if self.closed:
                return False
            self._leases[lease] = Lease(lease, held, now + self._lease_s / 3, now + self._lease_s)
            self._waiting += len(held)
            self.beat.notify()
            return True

    # Working

    def begin(self, job: AnyJob) -> bool:
        """Whether the job may be worked on."""
        with self._lock:
            if job._state != "waiting":
                return False
            job._state = "running"
            self._waiting -= 1
            self._running += 1
            self._busy += 1
            if self._may_claim():
                self.room.notify_all()
            return True

    def handled(self, count: int) -> None:
        """The handler of so many jobs came to its end: there is place for others."""
        with self.room:
            self._busy -= count
            if self._may_claim():
                self.room.notify_all()

    def end(self, job: AnyJob, parts: list[bytes]) -> bool:
        """Takes the outcome of a job; False if it is not ours any more, or has one already."""
        with self._lock:
            return self._end(job, parts)

    def _end(self, job: AnyJob, parts: list[bytes]) -> bool:
        if job._state not in ("waiting", "running"):
            return False
        self._leave(job)
        job._state = "settling"
        self._settling += 1
        self._outbox.setdefault(job.lease, deque()).append(Told(job, parts))
        self.post.notify()
        return True

    def _leave(self, job: AnyJob) -> None:
        if job._state == "waiting":
            self._waiting -= 1
        elif job._state == "running":
            self._running -= 1
        elif job._state == "settling":
            self._settling -= 1
        if self._may_claim() or not self._running:
            self.room.notify_all()

    def report(self, job: AnyJob, progress: Progress) -> None:
        with self.beat:
            lease = self._leases.get(job.lease)
            if lease is not None and job._state == "running":
                lease.progress[job.id] = progress
                self.beat.notify()

    # Settling

    def next_settle(self) -> tuple[str, list[Told]] | None:
        """The outcomes that gathered under one lease; waits for some. None if it is over."""
        with self.post:
            while not self._outbox:
                if self._is_over():
                    return None
                self.post.wait()
            lease, gathered = next(iter(self._outbox.items()))
            found: list[Told] = []
            size = 0
            while gathered and len(found) < SETTLE_ITEMS_MAX:
                size += sum(map(len, gathered[0].parts))
                if found and (size > SETTLE_BYTES_MAX or len(gathered[0].parts) > 1):
                    break
                found.append(gathered.popleft())
                if len(found[0].parts) > 1:
                    break
            if gathered:
                # Another lease comes first next time.
                self._outbox[lease] = self._outbox.pop(lease)
            else:
                del self._outbox[lease]
            return lease, found

    def again(self, told: Told) -> None:
        """An outcome that goes once more, with other words."""
        with self.post:
            self._outbox.setdefault(told.job.lease, deque()).append(told)
            self.post.notify()

    def settled(self, jobs: Iterable[AnyJob]) -> None:
        """They are over, one way or the other."""
        with self._lock:
            for job in jobs:
                self._leave(job)
                job._state = "over"
                self._drop(job)
            self._tell_if_over()

    def _drop(self, job: AnyJob) -> None:
        lease = self._leases.get(job.lease)
        if lease is not None:
            lease.jobs.pop(job.id, None)
            lease.progress.pop(job.id, None)
            if not lease.jobs:
                del self._leases[job.lease]

    # Renewing

    def next_beat(self) -> tuple[list[Lease], list[tuple[str, dict[str, Progress]]]] | None:
        """The leases to renew now and the progress to tell; waits for some. None if it is over."""
        with self.beat:
            while True:
                now = time.monotonic()
                due = [lease for lease in self._leases.values() if lease.renew_at <= now]
                told = self._take_progress(now)
                if due or told:
                    return due, told
                if self.closed and not self._leases:
                    return None
                self.beat.wait(self._until_next(now))

    def _take_progress(self, now: float) -> list[tuple[str, dict[str, Progress]]]:
        told = []
        for lease in self._leases.values():
            if lease.progress and lease.progress_at <= now:
                told.append((lease.id, lease.progress))
                lease.progress, lease.progress_at = {}, now + PROGRESS_S
        return told

    def _until_next(self, now: float) -> float | None:
        times = [lease.renew_at for lease in self._leases.values()]
        times += [lease.progress_at for lease in self._leases.values() if lease.progress]
        return max(min(times) - now, 0.0) if times else None

    def renewed(self, lease: Lease, sent: float, held: Iterable[str]) -> list[AnyJob]:
        """A lease goes on, over what it still holds. Says which jobs are lost."""
        still = set(held)
        with self._lock:
            lease.renew_at = time.monotonic() + self._lease_s / 3
            lease.lost_at = sent + self._lease_s
            return self._lose(job for job in lease.jobs.values() if job.id not in still)

    def not_renewed(self, lease: Lease, lost: bool) -> list[AnyJob]:
        """A lease was not renewed: it is lost, or will be. Says which jobs are."""
        now = time.monotonic()
        with self._lock:
            lease.renew_at = now + min(self._lease_s / 6, 1.0)
            if lost or now >= lease.lost_at:
                return self._lose(lease.jobs.values())
        return []

    def _lose(self, jobs: Iterable[AnyJob]) -> list[AnyJob]:
        # What is being settled may have been settled already: the server will say.
        lost = [job for job in jobs if job._state in ("waiting", "running")]
        for job in lost:
            self._leave(job)
            job._state = "over"
            job._lose(f"the lease of {job.id} is lost, or it was cancelled")
            self._drop(job)
        self._tell_if_over()
        return lost

    # Stopping

    def hand_back(self, parts: list[bytes], also_running: bool) -> list[AnyJob]:
        """Gives back what has not begun, or everything. Says what that was."""
        states = ("waiting", "running") if also_running else ("waiting",)
        with self._lock:
            leases = list(self._leases.values())
            jobs = [job for lease in leases for job in lease.jobs.values() if job._state in states]
            for job in jobs:
                was_running = job._state == "running"
                self._end(job, parts)
                if was_running:
                    job._lose(f"{job.id} was handed back, because the worker stops")
        return jobs

    def wait_until(self, idle: bool, deadline: float) -> bool:
        """Waits until no job runs, or with `idle` until nothing is left at all."""
        with self.room:
            while self._running or (idle and (self._waiting or self._settling)):
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self.room.wait(min(left, 60.0))
            return True

    def _is_over(self) -> bool:
        return self.closed and not (self._waiting or self._running or self._settling)

    def _tell_if_over(self) -> None:
        self.room.notify_all()
        if self._is_over():
            self.post.notify_all()
            self.beat.notify_all()

    def abandon(self) -> list[AnyJob]:
        """Lets go of everything; what was held comes back when its lease runs out."""
        with self._lock:
            jobs = [job for lease in self._leases.values() for job in lease.jobs.values()]
            for job in jobs:
                job._state = "over"
                job._lose(f"{job.id} was let go, because the worker stops")
            self._leases.clear()
            self._outbox.clear()
            self._waiting = self._running = self._settling = 0
            self._tell_if_over()
            return jobs

    def close(self) -> None:
        """Nothing more is claimed; what waits for work or outcomes ends when there is none."""
        with self._lock:
            self.closed = True
            self.room.notify_all()
            self.beat.notify_all()
            self.post.notify_all()
