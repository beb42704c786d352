"""Runs `mcpx` with the arguments it is given, and writes the number of its tasks where a signal asks for it.

At SIGUSR1 the file that NODEBENCH_TASKS names gets the number of asyncio tasks. Nothing else is different.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from mcpx.__main__ import main


def _count(_number: int, _frame: object) -> None:
    found = Path(os.environ["NODEBENCH_TASKS"])
    part = found.with_suffix(".part")
    part.write_text(str(len(asyncio.all_tasks())))
    part.rename(found)


signal.signal(signal.SIGUSR1, _count)
main()
