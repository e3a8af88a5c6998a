"""Workers as processes of their own: signals and sudden death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from serving import PATIENCE_S, Server, eventually
from windrow import Client

SOURCE = str(Path(__file__).parents[1] / "src")

# A line is one write: print makes several, and those of two threads mix.
PROGRAM = """
import logging, os, sys
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
from windrow import worker, Job

@worker(sys.argv[1], concurrency=2, prefetch=2, lease=float(sys.argv[2]), grace=float(sys.argv[3]))
def slow(job: Job) -> str:
    os.write(1, f"begun {job.id}\\n".encode())
    while not job.cancelled:
        if job.payload == "quick" or job.wait_cancelled(0.01):
            break
    return "done"

print("ready", flush=True)
slow.run()
print("ended", flush=True)
"""

ASYNC_PROGRAM = """
import asyncio, logging, os, sys
logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
from windrow import worker, Job

@worker(sys.argv[1], concurrency=2, lease=float(sys.argv[2]), grace=float(sys.argv[3]))
async def slow(job: Job) -> None:
    os.write(1, f"begun {job.id}\\n".encode())
    await asyncio.sleep(3600)

async def main() -> None:
    print("ready", flush=True)
    await slow.run_async()
    print("ended", flush=True)

asyncio.run(main())
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(server: Server, queue: str) -> Iterator[Start]:
    """Starts a worker program; it is killed at the end of the test, if it still lives."""
    begun: list[subprocess.Popen[str]] = []

    def starting(
        program: str = PROGRAM, lease: float = 30, grace: float = 0.1
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", program, queue, str(lease), str(grace)],
            env={**os.environ, "WINDROW_SERVER": server.url, "PYTHONPATH": SOURCE},
            stdout=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield starting
    for process in begun:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


def until(process: subprocess.Popen[str], word: str) -> None:
    """Reads on until a line begins with a word."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word):
            return
    raise AssertionError(f"it ended without saying {word}")


@pytest.mark.parametrize("program", [PROGRAM, ASYNC_PROGRAM], ids=["threads", "tasks"])
def test_sigterm_hands_items_back_and_burns_no_attempt(
    client: Client, queue: str, start: Start, program: str
) -> None:
    ids = [client.enqueue(queue, n).id for n in range(4)]
    process = start(program)
    said = lines(process, 2)
    assert all(line.startswith("begun ") for line in said), said
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    until(process, "ended")
    items = [client.show(id) for id in ids]
    assert [item.status for item in items] == ["pending"] * 4
    assert [item.attempts for item in items] == [0] * 4


def test_sigint_lets_what_runs_end_within_the_grace(
    client: Client, queue: str, start: Start
) -> None:
    program = PROGRAM.replace('job.payload == "quick"', "__import__('os').path.exists(job.payload)")
    ready = Path(os.environ.get("TMPDIR", "/tmp")) / f"windrow-{queue}"
    made = client.enqueue(queue, str(ready))
    process = start(program, grace=PATIENCE_S)
    lines(process, 1)
    process.send_signal(signal.SIGINT)
    until(process, "stopping")
    ready.touch()
    try:
        assert process.wait(PATIENCE_S) == 0
    finally:
        ready.unlink()
    assert client.show(made.id).result == "done"


def test_a_second_signal_ends_the_grace(client: Client, queue: str, start: Start) -> None:
    made = client.enqueue(queue, 1)
    process = start(grace=3600)
    lines(process, 1)
    process.send_signal(signal.SIGTERM)
    until(process, "stopping")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    item = client.show(made.id)
    assert (item.status, item.attempts) == ("pending", 0)


def test_kill_9_of_a_worker_gives_its_item_to_another(
    client: Client, quick: Callable[..., str], start: Start
) -> None:
    queue = quick()
    made = client.enqueue(queue, 1)
    process = start(lease=1)
    assert lines(process, 1) == [f"begun {made.id}"]
    process.kill()
    grant = client.claim(queue, wait=30)
    assert [work.id for work in grant.items] == [made.id]
    assert grant.items[0].attempt == 2, "the attempt of the dead worker counts"


def test_a_worker_that_works_is_not_disturbed_by_its_environment(
    client: Client, queue: str, start: Start
) -> None:
    made = client.enqueue(queue, "quick")
    start()
    eventually(lambda: client.show(made.id).status == "completed", "the work")
    assert client.show(made.id).result == "done"
