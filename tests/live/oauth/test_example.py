"""The SDK's own example of a server that wants a sign-in, in its old form and its new."""

from __future__ import annotations

import sys

import anyio
import pytest

from tests.live.oauth.conftest import HERE
from tests.live.oauth.household import run_tool, text
from tests.live.processes import serving

pytestmark = [pytest.mark.live, pytest.mark.anyio, pytest.mark.timeout(120)]
SHORT_S = 3
PACE_S = 0.05  # between calls that go on and on


@pytest.fixture
async def example(request, anyio_backend):
    """Entries of both forms, whose tokens live that long."""
    command = [sys.executable, str(HERE / "example_server.py"), str(request.param)]
    async with serving(command, ready="serving http") as line:
        combined, split = (word for word in line.split() if word.startswith("http"))
        urls = {"combined": combined, "split": split}
        yield {name: {"type": "http", "url": url} for name, url in urls.items()}


@pytest.mark.parametrize("example", [3600], indirect=True)
async def test_a_person_signs_in_to_both_forms_of_it(house, example, alice):
    house.write(example)
    async with house.attached() as client:
        await client.initialize()
        for name in example:
            assert f"mcpx login {name}" in text(await run_tool(client, name, "whoami"))
        async with house.logging_in("--all") as login:
            for _ in example:
                await alice.follow(await login.address())
            assert await login.ended() == 0, login.said
        for name in example:
            assert text(await run_tool(client, name, "whoami")) == "demo_user"
    assert (await house.command("daemon", "stop")).returncode == 0
    async with house.attached() as client:
        await client.initialize()
        for name in example:
            assert text(await run_tool(client, name, "whoami")) == "demo_user"


@pytest.mark.parametrize("example", [SHORT_S], indirect=True)
async def test_a_token_that_cannot_be_refreshed_lasts_until_it_expires(house, example, alice):
    house.write({"split": example["split"]})
    async with house.attached() as client:
        await client.initialize()
        login = await house.sign_in(alice, "split")
        assert await login.ended() == 0, login.said
        assert text(await run_tool(client, "split", "whoami")) == "demo_user"
        assert (await house.server("split"))["sign_in"]["expires_at"]
        while not (answer := await run_tool(client, "split", "whoami"))["isError"]:
            assert text(answer) == "demo_user"
            await anyio.sleep(PACE_S)
        assert answer["structuredContent"]["outcome"] == "not_sent"
        assert "mcpx login split" in text(answer)
        assert (await house.server("split"))["state"] == "needs sign-in"
        assert await (await house.sign_in(alice, "split")).ended() == 0
        assert text(await run_tool(client, "split", "whoami")) == "demo_user"
