"""Measures one worker process: enqueues items in batches, then drains them.

    WINDROW_SERVER=http://127.0.0.1:7117 python bench/worker.py --items 50000

Prints one line of JSON. `--each` hands items to the handler one by one instead of in batches,
and `--tasks` to a coroutine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from windrow import Client, Job, NewItem, Worker


def main() -> None:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    asked.add_argument("--items", type=int, default=20_000)
    asked.add_argument("--batch", type=int, default=250)
    asked.add_argument("--concurrency", type=int, default=2)
    asked.add_argument("--payload-bytes", type=int, default=100)
    how = asked.add_mutually_exclusive_group()
    how.add_argument("--each", action="store_true")
    how.add_argument("--tasks", action="store_true")
    said = asked.parse_args()

    queue = f"bench-{uuid.uuid4().hex[:12]}"
    payload = {"text": "x" * said.payload_bytes}
    seen = 0

    def together(jobs: list[Job[Any]]) -> None:
        nonlocal seen
        seen += len(jobs)

    def alone(job: Job[Any]) -> None:
        nonlocal seen
        seen += 1

    async def task(job: Job[Any]) -> None:
        nonlocal seen
        seen += 1
        await asyncio.sleep(0)

    with Client() as client:
        began = time.perf_counter()
        new = (NewItem(payload) for _ in range(said.items))
        answers = client.enqueue_many(new, queue=queue)
        enqueued_s = time.perf_counter() - began
        assert all(answer.ok for answer in answers), "an item was refused"

        prefetch = said.batch * 2
        if said.each or said.tasks:
            handler = task if said.tasks else alone
            worker = Worker[Any](
                handler, queue, concurrency=said.concurrency, prefetch=prefetch, client=client
            )
        else:
            worker = Worker[Any](
                together, queue, batch=said.batch, concurrency=said.concurrency,
                prefetch=prefetch, client=client,
            )  # fmt: skip
        began, cpu = time.perf_counter(), time.process_time()
        worker.run(drain=True)
        took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        left = client.stats(queue=queue)
        assert seen == said.items, f"{seen} of {said.items} were handled"
        assert worker.endings == {"completed": said.items}, worker.endings
        assert left.pending == 0, left
        assert left.processing == 0, left
    print(
        json.dumps(
            {
                "what": "python worker",
                "form": "task" if said.tasks else "each" if said.each else f"batch {said.batch}",
                "items": said.items,
                "seconds": round(took_s, 3),
                "items_per_s": round(said.items / took_s),
                "cpu_seconds": round(cpu_s, 3),
                "enqueued_per_s": round(said.items / enqueued_s),
            }
        )
    )


if __name__ == "__main__":
    main()
