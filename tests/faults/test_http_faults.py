"""Every fault of a server over HTTP, with real sockets: what the caller saw, who noticed, what was left."""

from __future__ import annotations

import json

import anyio
import pytest

from tests.faults.http_rows import faults
from tests.faults.http_stage import Seen

ROW_S = 20.0  # for what takes a few seconds on a machine that has time

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.parametrize("fault", faults)
async def test_the_fault_is_survived(fault):
    seen = Seen(fault)
    with anyio.fail_after(ROW_S):
        await faults[fault](seen)
    assert not seen.problems, json.dumps(seen.__dict__, indent=2)
    assert seen.caller_saw
    assert seen.ended
