"""The programs in the pages run as they stand there, each page in its order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from serving import Server

ROOT = Path(__file__).parents[3]
PAGES = ["clients/python/README.md", "docs/guides/python-client.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_programs_of_a_page_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
    assert programs, f"{page} shows no program"
    names: dict[str, object] = {"__name__": "__main__"}
    with Server(tmp_path / "data") as server:
        monkeypatch.setenv("WINDROW_SERVER", server.url)
        for number, program in enumerate(programs, start=1):
            where = f"{page}, program {number}"
            exec(compile(program, where, "exec", dont_inherit=True), names)
