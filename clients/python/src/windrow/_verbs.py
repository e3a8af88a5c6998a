"""The verbs of the queue as calls, once for both clients.

Each function builds one call. Times that pass are numbers of seconds or timedeltas; points in
time are `datetime` with a zone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar

from . import answers as a
from ._call import Call, Reply, look, many, name, named, one, path, post
from ._json import Seconds, blank, encoded, milliseconds
from ._reading import read, time
from .errors import Invalid
from .items import NewItem, RouteStage
from .outcomes import Outcome

T = TypeVar("T")

#: The server's limits for one request.
ITEMS_MAX = 1000
BODY_BYTES_MAX = 16 * 1024 * 1024
#: Longest wait that one claim asks for; a longer one is asked for again.
WAIT_MAX_S = 60.0


def enqueue(
    queue: str,
    payload: Any = None,
    *,
    key: str | None = None,
    priority: int | None = None,
    delay: Seconds | None = None,
    not_before: datetime | None = None,
    tenant: str | None = None,
    kind: str | None = None,
    op: str | None = None,
    group: str | None = None,
    metadata: Any = None,
    route: Sequence[RouteStage] | None = None,
    content_type: str | None = None,
    payload_ref: a.BlobRef | None = None,
    collection: str | None = None,
    branch: str | None = None,
    source_type: str | None = None,
    source_info: str | None = None,
    ref: str | None = None,
    on_duplicate: Literal["keep", "replace"] | None = None,
    on_split: Literal["after", "supersede"] | None = None,
    request_id: str | None = None,
) -> Call[a.Enqueued]:
    """Puts one item into a queue. When this returns, it is on disk.

    The payload is JSON, or any bytes. A `key` is an identity: while an item with it waits,
    enqueueing it again keeps that item (outcome "duplicate"), or with `on_duplicate="replace"`
    gives it the newer payload.
    """
    item = NewItem(
        payload, key, None, priority, delay, not_before, tenant, kind, op, group, metadata, route,
        content_type, payload_ref, collection, branch, source_type, source_info, ref,
        on_duplicate, on_split,
    )  # fmt: skip
    where = path("queues", name(queue), "items")
    return post(where, one(a.Enqueued), item.wire(), request_id=named(request_id))


def enqueue_slices(
    items: Iterable[NewItem], queue: str | None
) -> Iterable[Call[list[a.Enqueued | a.Refused]]]:
    """Items in as few requests as the server's limits allow."""
    where = path("items") if queue is None else path("queues", name(queue), "items")
    lines: list[bytes] = []
    size = 0
    for item in items:
        line = encoded(item.wire())
        if lines and (len(lines) == ITEMS_MAX or size + len(line) + 1 > BODY_BYTES_MAX - 2):
            yield _enqueue_lines(where, lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    if lines:
        yield _enqueue_lines(where, lines)


def _enqueue_lines(where: str, lines: list[bytes]) -> Call[list[a.Enqueued | a.Refused]]:
    body = b"[" + b",".join(lines) + b"]"
    return Call("POST", where, _each(a.Enqueued), body, request_id=named(None))


def claim(
    queues: str | Iterable[str] = (),
    *,
    max: int = 1,
    wait: Seconds = 0.0,
    worker: str = "",
    lease: Seconds | None = None,
    stages: Iterable[str] = (),
    kinds: Iterable[str] = (),
    tenants: Iterable[str] = (),
    request_id: str | None = None,
) -> Call[a.Grant]:
    """Takes up to `max` items under one lease, waiting up to `wait` seconds (60 at most) for some.

    Without queues it takes from all. The lease lasts as long as the queue's settings say, or
    `lease`. If there was nothing, the answer is false and has no lease.
    """
    wait_ms = milliseconds(wait) or 0
    body = blank(
        queues=[queues] if isinstance(queues, str) else list(queues) or None,
        stages=list(stages) or None,
        kinds=list(kinds) or None,
        tenants=list(tenants) or None,
        max=max,
        wait_ms=wait_ms or None,
        worker=worker or None,
        lease_ms=milliseconds(lease),
    )
    where = path("claims")
    return post(where, one(a.Grant), body, request_id=named(request_id), wait=wait_ms / 1000)


def renew(lease: str, *, for_: Seconds | None = None) -> Call[a.Renewed]:
    """Keeps a lease, as long as the queue's settings say or `for_`. Says what it still holds."""
    return post(_lease(lease, "renew"), one(a.Renewed), blank(lease_ms=milliseconds(for_)))


def progress(
    lease: str, id: str, current: int, total: int, message: str = ""
) -> Call[a.Told | a.Refused]:
    """Says how far an item is."""
    say = {"id": id, "current": current, "total": total, "message": message}
    return post(_lease(lease, "progress"), _first(_each(a.Told)), {"items": [say]})


def progress_many(
    lease: str, items: Iterable[tuple[str, a.Progress]]
) -> Call[list[a.Told | a.Refused]]:
    """Says how far several items of one lease are."""
    said = [
        {"id": id, "current": of.current, "total": of.total, "message": of.message}
        for id, of in items
    ]
    return post(_lease(lease, "progress"), _each(a.Told), {"items": said})


def settle(
    lease: str, items: Iterable[tuple[str, Outcome]], *, request_id: str | None = None
) -> Call[list[a.Settled | a.Refused]]:
    """Reports how the work on items of one lease ended. Answers for each, in their order."""
    said = [{"id": id, **outcome.wire} for id, outcome in items]
    if not said:
        raise Invalid("invalid", "items: there is nothing to settle")
    body = {"items": said}
    return post(_lease(lease, "settle"), _each(a.Settled), body, request_id=named(request_id))


def settle_encoded(lease: str, body: bytes) -> Call[list[a.Settled | a.Refused]]:
    """A settle whose body is JSON already."""
    where = _lease(lease, "settle")
    return Call("POST", where, _each(a.Settled), body, request_id=named(None))


def payload_of(lease: str, id: str) -> Call[Any]:
    """The payload of an item that a lease holds, wherever it is kept: JSON, or bytes."""
    return look(path("leases", name(lease, "lease"), "items", name(id, "id"), "payload"), _payload)


def list_page(
    *,
    status: str | Iterable[str] | None = None,
    queue: str | None = None,
    stage: str | None = None,
    kind: str | None = None,
    tenant: str | None = None,
    collection: str | None = None,
    branch: str | None = None,
    source_type: str | None = None,
    q: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[a.Page]:
    """A page of items, newest first."""
    where = path(
        "queue", status=_commas(status), queue=queue, stage=stage, kind=kind, tenant=tenant,
        collection=collection, branch=branch, source_type=source_type, q=q, limit=limit,
        cursor=cursor,
    )  # fmt: skip
    return look(where, one(a.Page))


def show(id: str) -> Call[a.Item]:
    """Everything about an item."""
    return look(path("queue", name(id, "id")), one(a.Item))


def tree(id: str, *, from_: int | None = None, limit: int | None = None) -> Call[a.Tree]:
    """An item and a page of its children."""
    return look(path("queue", name(id, "id"), "tree", from_=from_, limit=limit), one(a.Tree))


def explain(id: str) -> Call[a.Explanation]:
    """Why an item is where it is, and what would move it on."""
    return look(path("queue", name(id, "id"), "explain"), one(a.Explanation))


def history(id: str) -> Call[list[a.Moment]]:
    """The life of an item: when it was created, its last attempts, how it ended."""
    return look(path("queue", name(id, "id"), "events"), many(a.Moment))


def stats(*, queue: str | None = None, tenant: str | None = None) -> Call[a.Stats]:
    """Items by status."""
    return look(path("queue", "stats", queue=queue, tenant=tenant), one(a.Stats))


def retry(
    id: str,
    *,
    mode: Literal["clone", "reset"] | None = None,
    from_stage: str | None = None,
    request_id: str | None = None,
) -> Call[a.Retried]:
    """Runs an ended item again, as a clone or with mode "reset" itself."""
    where = path("queue", name(id, "id"), "retry")
    body = blank(mode=mode, from_stage=from_stage)
    return post(where, one(a.Retried), body, request_id=named(request_id))


def cancel(id: str, *, request_id: str | None = None) -> Call[a.Cancelled]:
    """Ends an item, with everything below it."""
    where = path("queue", name(id, "id"), "cancel")
    return post(where, one(a.Cancelled), request_id=named(request_id))


def delete(id: str, *, request_id: str | None = None) -> Call[int]:
    """Removes an ended item for good. Says how many were removed with it."""
    where = path("queue", name(id, "id"))
    removed = _field("removed", int)
    return post(where, removed, method="DELETE", request_id=named(request_id))


def prioritise(id: str, priority: int) -> Call[None]:
    """Gives an item another priority, from 0 to 10."""
    return post(path("queue", name(id, "id"), "prioritise"), _nothing, {"priority": priority})


def pause(queue: str, *, stage: str | None = None, tenant: str | None = None) -> Call[a.Done]:
    """Hands out nothing more of a queue, or of a stage or tenant of it."""
    where = path("queues", name(queue), "pause")
    return post(where, one(a.Done), blank(stage=stage, tenant=tenant))


def resume(queue: str, *, stage: str | None = None, tenant: str | None = None) -> Call[a.Done]:
    """Ends a pause."""
    where = path("queues", name(queue), "resume")
    return post(where, one(a.Done), blank(stage=stage, tenant=tenant))


def queues() -> Call[list[a.Queue]]:
    """Every queue that has items or settings or is paused."""
    return look(path("queues"), many(a.Queue))


def settings(queue: str) -> Call[a.Settings]:
    """How a queue behaves."""
    return look(path("queues", name(queue), "settings"), _settings)


def configure(queue: str, settings: a.Settings) -> Call[a.Done]:
    """Says how a queue behaves. What is left out is as by default: read, change, send back."""
    where = path("queues", name(queue), "settings")
    return post(where, one(a.Done), dict(settings), method="PUT")


def schedules(*, tenant: str | None = None) -> Call[list[a.Schedule]]:
    """All schedules, with their last and next runs."""
    return look(path("schedules", tenant=tenant), many(a.Schedule))


def schedule(name_: str, *, tenant: str | None = None) -> Call[a.Schedule]:
    """One schedule."""
    return look(path("schedules", name(name_, "name"), tenant=tenant), one(a.Schedule))


def put_schedule(
    name_: str,
    cron: str,
    item: NewItem,
    *,
    time_zone: str | None = None,
    overlap: Literal["allow", "skip", "replace"] | None = None,
    missed: Literal["skip", "one", "all"] | None = None,
    enabled: bool | None = None,
    tenant: str | None = None,
    revision: int | None = None,
) -> Call[a.Schedule]:
    """Has an item enqueued by the clock. With `revision`, only if nobody wrote it meanwhile."""
    body = blank(
        cron=cron, item=item.wire(), time_zone=time_zone, overlap=overlap, missed=missed,
        enabled=enabled,
    )  # fmt: skip
    where = path("schedules", name(name_, "name"), tenant=tenant)
    return post(where, one(a.Schedule), body, method="PUT", headers=_if_match(revision))


def delete_schedule(
    name_: str, *, tenant: str | None = None, revision: int | None = None
) -> Call[a.Done]:
    """Removes a schedule."""
    where = path("schedules", name(name_, "name"), tenant=tenant)
    return post(where, one(a.Done), method="DELETE", headers=_if_match(revision))


def run_schedule(
    name_: str, *, tenant: str | None = None, request_id: str | None = None
) -> Call[a.Ran]:
    """Runs a schedule now."""
    where = path("schedules", name(name_, "name"), "run", tenant=tenant)
    return post(where, one(a.Ran), request_id=named(request_id))


def preview_schedule(
    name_: str, *, count: int | None = None, tenant: str | None = None
) -> Call[list[datetime]]:
    """When a schedule will run."""
    where = path("schedules", name(name_, "name"), "preview", tenant=tenant, count=count)
    return look(where, lambda reply: [time(run) for run in reply.json()["next_runs"]])


def operate(
    verb: Literal["retry", "cancel", "delete", "prioritise"],
    *,
    status: str | Iterable[str] | None = None,
    queue: str | None = None,
    stage: str | None = None,
    kind: str | None = None,
    tenant: str | None = None,
    collection: str | None = None,
    branch: str | None = None,
    source_type: str | None = None,
    q: str | None = None,
    all: bool = False,
    dry_run: bool = False,
    mode: Literal["clone", "reset"] | None = None,
    from_stage: str | None = None,
    priority: int | None = None,
    request_id: str | None = None,
) -> Call[a.Operation]:
    """Begins one verb on many items. Without a filter, `all` says that everything is meant."""
    chosen = blank(
        status=_commas(status), queue=queue, stage=stage, kind=kind, tenant=tenant,
        collection=collection, branch=branch, source_type=source_type, q=q,
    )  # fmt: skip
    body = blank(
        verb=verb, filter=chosen or None, all=all or None, dry_run=dry_run or None, mode=mode,
        from_stage=from_stage, priority=priority,
    )  # fmt: skip
    return post(path("operations"), one(a.Operation), body, request_id=named(request_id))


def operation(id: str) -> Call[a.Operation]:
    """How far an operation is."""
    return look(path("operations", name(id, "id")), one(a.Operation))


def operations() -> Call[list[a.Operation]]:
    """The operations under way, and the last that ended."""
    return look(path("operations"), many(a.Operation))


def cancel_operation(id: str) -> Call[a.Operation]:
    """Stops an operation. What it did stays done."""
    return post(path("operations", name(id, "id"), "cancel"), one(a.Operation))


def put_blob(data: bytes, *, tenant: str | None = None) -> Call[a.BlobRef]:
    """Stores bytes as a blob, at most 64 MiB. The answer is what an item's `payload_ref` takes."""
    sha256 = hashlib.sha256(data).hexdigest()
    where = path("blobs", sha256, tenant=tenant)
    kind = "application/octet-stream"
    return Call("PUT", where, one(a.BlobRef), bytes(data), content_type=kind)


def get_blob(sha256: str, *, tenant: str | None = None) -> Call[bytes]:
    """The bytes of a blob."""
    return look(path("blobs", name(sha256, "sha256"), tenant=tenant), lambda reply: reply.body)


def health() -> Call[a.Health]:
    """Whether work gets done, and what to do if not."""
    return look(path("health"), one(a.Health))


def workers() -> Call[list[a.Present]]:
    """The workers that ask this server for work or hold a lease, and those that are drained."""
    return look(path("workers"), many(a.Present))


def request(
    method: str, path: str, body: Any = None, *, request_id: str | None = None
) -> Call[Any]:
    """Anything else of the HTTP API, as JSON; `path` is what follows `/api/v1`."""
    where = "/" + path.lstrip("/")
    if method.upper() == "GET":
        return look(where, _json)
    return post(where, _json, body, method=method.upper(), request_id=named(request_id))


def events_path(
    *,
    queue: str | Iterable[str] | None = None,
    tenant: str | Iterable[str] | None = None,
    status: str | Iterable[str] | None = None,
    item: str | Iterable[str] | None = None,
) -> str:
    """Where the stream of events is."""
    return path(
        "events",
        queue=_commas(queue),
        tenant=_commas(tenant),
        status=_commas(status),
        item=_commas(item),
    )


def _lease(lease: str, what: str) -> str:
    return path("leases", name(lease, "lease"), what)


def _each(kind: type[T]) -> Callable[[Reply], list[T | a.Refused]]:
    def reads(reply: Reply) -> list[T | a.Refused]:
        return [read(a.Refused, one) if "error" in one else read(kind, one) for one in reply.json()]

    return reads


def _first(reads: Callable[[Reply], list[T]]) -> Callable[[Reply], T]:
    return lambda reply: reads(reply)[0]


def _field(field: str, kind: type[T]) -> Callable[[Reply], T]:
    return lambda reply: kind(reply.json()[field])  # type: ignore[call-arg]


def _nothing(reply: Reply) -> None:
    return None


def _json(reply: Reply) -> Any:
    return reply.json() if reply.body else None


def _settings(reply: Reply) -> a.Settings:
    found: a.Settings = reply.json()
    return found


def _payload(reply: Reply) -> Any:
    kind = reply.headers.get("content-type", "").split(";")[0].strip()
    is_json = kind == "application/json" or kind.endswith("+json")
    return reply.json() if is_json and reply.body else reply.body


def _if_match(revision: int | None) -> tuple[tuple[str, str], ...]:
    return () if revision is None else (("if-match", f'"{revision}"'),)


def _commas(of: str | Iterable[str] | None) -> str | None:
    return of if of is None or isinstance(of, str) else ",".join(of)
