"""Windrow: a durable ingestion queue. This is its client, and its workers.

from windrow import Client, Job, worker

with Client() as client:
    client.enqueue("thumbs", {"path": "cat.jpg"}, key="cat.jpg")

@worker("thumbs")
def thumb(job: Job) -> None:
    print(job.payload["path"])

thumb.run()
"""

from .aio import AsyncClient
from .answers import (
    Attempt,
    BlobRef,
    Cancelled,
    Check,
    Children,
    Counts,
    Done,
    Enqueued,
    Error,
    Event,
    Explanation,
    Grant,
    Health,
    Item,
    LastRun,
    Moment,
    Operation,
    Page,
    Paused,
    Phase,
    Place,
    Present,
    Progress,
    Queue,
    QueueCounts,
    Ran,
    Refused,
    Renewed,
    Retried,
    Row,
    Schedule,
    Settings,
    Settled,
    Stage,
    Stats,
    Told,
    Tree,
    Why,
    Work,
)
from .client import Client
from .errors import (
    Conflict,
    Forbidden,
    Invalid,
    LeaseLost,
    NotFound,
    Overloaded,
    Unauthorized,
    Unavailable,
    Unreachable,
    WindrowError,
)
from .items import Child, NewItem
from .job import Job
from .outcomes import Complete, Fail, Outcome, Release, Retry, Skip, Snooze, Split
from .worker import Worker, WorkerOptions, run, worker

__version__ = "0.1.0"

__all__ = [
    "Client", "AsyncClient", "worker", "Worker", "WorkerOptions", "run", "Job",
    "NewItem", "Child",
    "Outcome", "Complete", "Split", "Retry", "Fail", "Skip", "Release", "Snooze",
    "WindrowError", "Invalid", "Unauthorized", "Forbidden", "NotFound", "LeaseLost", "Conflict",
    "Overloaded", "Unavailable", "Unreachable",
    "Attempt", "BlobRef", "Cancelled", "Check", "Children", "Counts", "Done", "Enqueued", "Error",
    "Event", "Explanation", "Grant", "Health", "Item", "LastRun", "Moment", "Operation", "Page",
    "Paused", "Phase", "Place", "Present", "Progress", "Queue", "QueueCounts", "Ran", "Refused",
    "Renewed", "Retried", "Row", "Schedule", "Settings", "Settled", "Stage", "Stats", "Told",
    "Tree", "Why", "Work",
]  # fmt: skip
