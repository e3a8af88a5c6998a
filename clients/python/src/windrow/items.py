"""Items as they are enqueued."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from ._json import Seconds, blank, json_field, milliseconds, moment
from .answers import BlobRef

#: The name of a stage, or `{"name": …, "below": […]}` where its children have stages too.
RouteStage = Any


@dataclass
class NewItem:
    """An item to enqueue. Everything is optional; bytes may be any, the rest of a payload is JSON.

    `delay` is a number of seconds or a timedelta; `not_before` is a time with a zone.
    """

    payload: Any = None
    key: str | None = None
    queue: str | None = None
    priority: int | None = None
    delay: Seconds | None = None
    not_before: datetime | None = None
    tenant: str | None = None
    kind: str | None = None
    op: str | None = None
    group: str | None = None
    metadata: Any = None
    route: Sequence[RouteStage] | None = None
    content_type: str | None = None
    payload_ref: BlobRef | None = None
    collection: str | None = None
    branch: str | None = None
    source_type: str | None = None
    source_info: str | None = None
    ref: str | None = None
    on_duplicate: Literal["keep", "replace"] | None = None
    on_split: Literal["after", "supersede"] | None = None

    def wire(self) -> dict[str, Any]:
        """As the server reads it."""
        return blank(
            **json_field("payload", self.payload),
            key=self.key,
            queue=self.queue,
            priority=self.priority,
            delay_ms=milliseconds(self.delay),
            not_before=moment(self.not_before),
            tenant=self.tenant,
            kind=self.kind,
            op=self.op,
            group=self.group,
            metadata=self.metadata,
            route=None if self.route is None else list(self.route),
            content_type=self.content_type,
            payload_ref=blob_ref(self.payload_ref),
            collection=self.collection,
            branch=self.branch,
            source_type=self.source_type,
            source_info=self.source_info,
            ref=self.ref,
            on_duplicate=self.on_duplicate,
            on_split=self.on_split,
        )


@dataclass
class Child:
    """A part of an item that splits. Children are known by their ordinal: a repeat is harmless."""

    ordinal: int
    kind: str
    payload: Any = None
    priority: int | None = None
    op: str | None = None
    group: str | None = None
    metadata: Any = None
    route: Sequence[RouteStage] | None = None
    content_type: str | None = None
    payload_ref: BlobRef | None = None
    ref: str | None = None

    def wire(self) -> dict[str, Any]:
        """As the server reads it."""
        return blank(
            ordinal=self.ordinal,
            kind=self.kind,
            **json_field("payload", self.payload),
            priority=self.priority,
            op=self.op,
            group=self.group,
            metadata=self.metadata,
            route=None if self.route is None else list(self.route),
            content_type=self.content_type,
            payload_ref=blob_ref(self.payload_ref),
            ref=self.ref,
        )


def blob_ref(ref: BlobRef | None) -> dict[str, Any] | None:
    return None if ref is None else {"sha256": ref.sha256, "length": ref.length}
