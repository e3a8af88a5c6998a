"""Counts the words of text files: one item per file, and a worker that does them.

python count.py add FILE...     puts the files into the queue
python count.py work            counts until it is stopped, with Ctrl-C
python count.py work --drain    counts until there is nothing left
python count.py show            what was counted
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windrow import Client, Fail, Job, NewItem, worker

QUEUE = "count-words"


@dataclass
class File:
    """What an item is about."""

    path: Path

    @staticmethod
    def of(payload: Any) -> File:
        return File(Path(payload["path"]))


@worker(QUEUE, decode=File.of, concurrency=4)
def count(job: Job[File]) -> dict[str, Any]:
    """Counts one file. What it returns stays with the item."""
    try:
        text = job.payload.path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Fail(f"{job.payload.path} does not exist", class_="gone") from None
    except UnicodeDecodeError as why:
        raise Fail(f"{job.payload.path} is not text: {why}", class_="bad_data") from None
    lines = text.splitlines()
    words: Counter[str] = Counter()
    for number, line in enumerate(lines, start=1):
        words.update(line.lower().split())
        if number % 10_000 == 0:
            job.check()
            job.progress(number, len(lines), "lines")
    return {"words": words.total(), "most": words.most_common(1)}


def add(paths: list[str]) -> int:
    """The path is the key: a file that waits already is not added twice."""
    found = [str(Path(path).resolve()) for path in paths]
    items = [NewItem({"path": path}, key=path, source_info=path) for path in found]
    with Client() as client:
        refused = 0
        for path, answer in zip(found, client.enqueue_many(items, queue=QUEUE), strict=True):
            if answer.ok:
                print(f"{answer.outcome:<10} {path}")
            else:
                refused += 1
                print(f"refused    {path}: {answer.detail}", file=sys.stderr)
    return 1 if refused else 0


def show() -> int:
    with Client() as client:
        for row in client.list_items(queue=QUEUE):
            name = Path(row.source_info or "?").name
            if row.status == "completed":
                print(f"{client.show(row.id).result['words']:>8}  {name}")
            else:
                print(f"{row.status:>8}  {name}  {row.error.message if row.error else ''}")
    return 0


def main() -> int:
    asked = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = asked.add_subparsers(dest="verb", required=True)
    verbs.add_parser("add").add_argument("file", nargs="+")
    verbs.add_parser("work").add_argument("--drain", action="store_true")
    verbs.add_parser("show")
    said = asked.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    if said.verb == "add":
        return add(said.file)
    if said.verb == "show":
        return show()
    count.run(drain=said.drain)
    print(f"settled: {count.endings}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
