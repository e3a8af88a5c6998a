"""What the server answers, as dataclasses.

Times are `datetime` with a zone. Payloads, results and inputs are JSON values, or `bytes` where
they are not JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypedDict

from ._reading import BYTES
from .errors import WindrowError, by_code

Status = Literal["pending", "processing", "completed", "failed", "cancelled", "skipped"]


@dataclass(frozen=True)
class BlobRef:
    """A blob, by the SHA-256 of its bytes."""

    sha256: str
    length: int


@dataclass(frozen=True)
class Error:
    """What went wrong with an item."""

    class_: str
    message: str


@dataclass(frozen=True)
class Refused:
    """One item of many was refused; nothing happened to it, and the others are unharmed."""

    error: str
    detail: str
    index: int = 0
    id: str | None = None
    key: str | None = None
    retry_after_ms: int | None = None

    @property
    def ok(self) -> Literal[False]:
        return False

    def as_error(self) -> WindrowError:
        """The same as an exception."""
        after = None if self.retry_after_ms is None else self.retry_after_ms / 1000
        return by_code(self.error, self.detail, retry_after=after)


@dataclass(frozen=True)
class Enqueued:
    """An item is in the queue, on disk."""

    id: str
    outcome: Literal["created", "duplicate", "replaced", "successor"]

    @property
    def ok(self) -> Literal[True]:
        return True


@dataclass(frozen=True)
class Settled:
    """An item was settled; `ending` says what became of it."""

    id: str
    ending: str

    @property
    def ok(self) -> Literal[True]:
        return True


@dataclass(frozen=True)
class Told:
    """It was noted how far an item is."""

    told: bool

    @property
    def ok(self) -> Literal[True]:
        return True


@dataclass(frozen=True)
class Work:
    """One item as a worker gets it. `input` is what the stage before put out."""

    id: str
    tenant: str
    queue: str
    kind: str
    op: str
    stage: str
    attempt: int
    priority: int
    created_at: datetime
    route: list[str] = field(default_factory=list)
    payload: Any = field(default=None, metadata=BYTES)
    payload_ref: BlobRef | None = None
    content_type: str | None = None
    input: Any = field(default=None, metadata=BYTES)
    key: str | None = None
    group: str | None = None
    collection: str | None = None
    branch: str | None = None
    source_type: str | None = None
    source_info: str | None = None
    ref: str | None = None
    parent: str | None = None
    metadata: Any = None


@dataclass(frozen=True)
class Grant:
    """A lease over the items of one claim. Without items there is no lease."""

    lease: str | None
    items: list[Work]
    expires_at: datetime | None = None

    def __bool__(self) -> bool:
        return self.lease is not None


@dataclass(frozen=True)
class Renewed:
    """A lease goes on, over the items in `held`."""

    expires_at: datetime
    held: list[str]


@dataclass(frozen=True)
class Progress:
    """How far an item is, as its worker says."""

    current: int
    total: int
    message: str = ""


@dataclass(frozen=True)
class Attempt:
    """One of the last attempts at an item."""

    number: int
    stage: str
    worker: str
    ending: str
    started_at: datetime
    ended_at: datetime
    error: Error | None = None


@dataclass(frozen=True)
class Stage:
    """Where an item stands in one stage of its route."""

    name: str
    status: str
    attempts: int
    worker: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    renewed_at: datetime | None = None
    error: Error | None = None


@dataclass(frozen=True)
class Counts:
    """Items by status."""

    pending: int = 0
    processing: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class Phase(Counts):
    """Children by status in one of their stages."""

    name: str = ""
    unreached: int = 0
    percent: int = 0


@dataclass(frozen=True)
class Children(Counts):
    """The children of an item, counted up."""

    unreached: int = 0
    percent: int = 0
    more: bool = False
    phases: list[Phase] = field(default_factory=list)


@dataclass(frozen=True)
class Place:
    """Where an item stands in its tree."""

    parent: str
    level: int
    ordinal: int
    generation: int


@dataclass(frozen=True)
class Row:
    """An item as a list shows it: without payload, metadata, result and attempts."""

    id: str
    tenant: str
    queue: str
    kind: str
    op: str
    status: Status
    stage: str
    attempts: int
    priority: int
    created_at: datetime
    updated_at: datetime | None = None
    finished_at: datetime | None = None
    not_before: datetime | None = None
    key: str | None = None
    group: str | None = None
    collection: str | None = None
    branch: str | None = None
    source_type: str | None = None
    source_info: str | None = None
    ref: str | None = None
    parent: str | None = None
    level: int = 0
    cloned_from: str | None = None
    reason: str | None = None
    error: Error | None = None
    progress: Progress | None = None
    children: Children | None = None


@dataclass(frozen=True)
class Item:
    """Everything about an item."""

    id: str
    tenant: str
    queue: str
    kind: str
    op: str
    status: Status
    stage: str
    attempts: int
    priority: int
    created_at: datetime
    generation: int = 0
    finished_at: datetime | None = None
    not_before: datetime | None = None
    route: list[str] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    log: list[Attempt] = field(default_factory=list)
    payload: Any = field(default=None, metadata=BYTES)
    payload_ref: BlobRef | None = None
    content_type: str | None = None
    result: Any = field(default=None, metadata=BYTES)
    metadata: Any = None
    key: str | None = None
    group: str | None = None
    collection: str | None = None
    branch: str | None = None
    source_type: str | None = None
    source_info: str | None = None
    ref: str | None = None
    place: Place | None = None
    cloned_from: str | None = None
    successor: str | None = None
    reason: str | None = None
    error: Error | None = None
    progress: Progress | None = None
    children: Children | None = None


@dataclass(frozen=True)
class Page:
    """A page of a list. Go on with `next` until it is None; `partial` says that time ran out."""

    items: list[Row]
    next: str | None = None
    partial: bool = False


@dataclass(frozen=True)
class Tree:
    """An item and a page of its children."""

    item: Item
    children: list[Item]
    next: int | None = None


@dataclass(frozen=True)
class Why:
    """One reason why an item is where it is, and what would move it on."""

    code: str
    unblocked_by: str


@dataclass(frozen=True)
class Explanation:
    """Why an item is where it is."""

    id: str
    status: str
    reasons: list[Why]
    error: Error | None = None
    retry_at: datetime | None = None


@dataclass(frozen=True)
class Moment:
    """One thing in the life of an item."""

    at: datetime
    event: str
    stage: str | None = None
    attempt: int | None = None
    worker: str | None = None
    error: Error | None = None
    reason: str | None = None
    status: str | None = None
    by: str | None = None


@dataclass(frozen=True)
class QueueCounts(Counts):
    """Items of one queue and tenant by status."""

    queue: str = ""
    tenant: str = ""


@dataclass(frozen=True)
class Stats(Counts):
    """Items by status, in all and by queue and tenant."""

    queues: list[QueueCounts] = field(default_factory=list)


class Settings(TypedDict, total=False):
    """How a queue behaves.

    A plain dict, so that what was read can be changed and sent back, with what a newer server
    added. What is left out is as by default.
    """

    lease_ms: int
    max_attempts: int
    backoff: dict[str, int]
    on_expiry: Literal["retry", "requeue", "fail"]
    retry_first: bool
    group_limit: int | None
    ordered: bool
    deferrals_max: int
    resource: str | None
    ahead: dict[str, Any] | None
    live_max: int | None
    unique: Literal["live", "retained"]
    retention: dict[str, int]
    forget_completed: bool
    stages: list[dict[str, Any]]
    kinds: list[dict[str, Any]]


@dataclass(frozen=True)
class Paused:
    """A pause of a queue, or of a stage or tenant of it."""

    stage: str | None = None
    tenant: str | None = None


@dataclass(frozen=True)
class Queue(Counts):
    """A queue with its counts, settings and pauses."""

    queue: str = ""
    settings: Settings = field(default_factory=Settings)
    paused: list[Paused] = field(default_factory=list)


@dataclass(frozen=True)
class Done:
    """It is done; a `note` says what may have been a slip."""

    done: bool
    note: str | None = None


@dataclass(frozen=True)
class Cancelled:
    """An item is cancelled; `ongoing` says that those below it follow in a moment."""

    id: str
    ongoing: bool = False


@dataclass(frozen=True)
class Retried:
    """An item runs again: `id` is the clone's, or its own after a reset."""

    id: str
    reset: int = 0


@dataclass(frozen=True)
class LastRun:
    """What the last run of a schedule came to."""

    run_at: datetime
    outcome: str
    item: str | None = None
    status: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Schedule:
    """An item that is enqueued by the clock."""

    name: str
    tenant: str
    revision: int
    cron: str
    time_zone: str
    item: dict[str, Any]
    overlap: str
    missed: str
    enabled: bool
    next_runs: list[datetime]
    last_run: LastRun | None = None


@dataclass(frozen=True)
class Ran:
    """A schedule was run by hand."""

    outcome: str
    item: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Operation:
    """One verb on many items, and how far it is."""

    id: str
    verb: str
    state: Literal["running", "done", "cancelling", "cancelled", "failed"]
    matched: int
    done: int
    refused: int
    started_at: datetime
    refusals: dict[str, int] = field(default_factory=dict)
    filter: dict[str, Any] = field(default_factory=dict)
    dry_run: bool = False
    ended_at: datetime | None = None
    message: str | None = None


@dataclass(frozen=True)
class Check:
    """One check of the server's health."""

    check: str
    status: Literal["green", "yellow", "red"]
    says: str
    of: str | None = None
    remedy: str | None = None


@dataclass(frozen=True)
class Health:
    """Whether work gets done, and what to do if not."""

    status: Literal["green", "yellow", "red"]
    checks: list[Check]


@dataclass(frozen=True)
class Present:
    """A worker that is present or drained.

    `last_seen` is None of one that is drained and away. `asked` says whether the server knows what
    it takes; if not, it is known by its leases alone.
    """

    name: str
    last_seen: datetime | None
    leases: int
    waiting: int
    asked: bool = True
    drained: bool = False
    queues: list[str] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Event:
    """Something happened to an item.

    `event` is what led to it (`create`, `claim`, `complete`, …), and `reset` if events were
    missed: then read again what you show. `place` is where the stream stood after it.
    """

    event: str
    place: str | None = None
    id: str | None = None
    queue: str | None = None
    tenant: str | None = None
    stage: int | None = None
    status: Status | None = None
    at: datetime | None = None
