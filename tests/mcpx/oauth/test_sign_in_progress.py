"""The states of a sign-in: what is not in the table changes nothing, and each who waits hears of the end."""

import itertools

import anyio
import pytest

from mcpx.oauth.answers import Callback
from mcpx.oauth.errors import Problem, SignInError
from mcpx.oauth.sign_in_progress import NEXT, Progress, Stage

pytestmark = pytest.mark.anyio
ERROR = SignInError(Problem.DENIED, "no")


@pytest.mark.parametrize(("before", "after"), list(itertools.product(Stage, Stage)), ids=str)
def test_only_what_is_in_the_table_happens(before, after):
    progress = Progress("notes")
    progress.stage = before
    assert progress.enter(after) is (after in NEXT[before])
    assert progress.stage is (after if after in NEXT[before] else before)


def test_every_state_but_the_two_ends_leads_on_and_may_fail():
    ends = {stage for stage in Stage if not NEXT[stage]}
    assert ends == {Stage.KEPT, Stage.FAILED}
    assert all(Stage.FAILED in NEXT[stage] for stage in set(Stage) - ends)


async def test_those_who_wait_hear_of_each_step():
    progress = Progress("notes")
    heard = []

    async def wait(for_it):
        heard.append(await for_it())

    with anyio.fail_after(50):
        async with anyio.create_task_group() as tasks:
            for each in (progress.asked, progress.answer, progress.ended):
                tasks.start_soon(wait, each)
            await anyio.wait_all_tasks_blocked()
            progress.ask("https://as.example/", "s")
            await anyio.wait_all_tasks_blocked()
            progress.take(Callback(code="c", state="s"))
            progress.take(Callback(code="another", state="s"))
            await anyio.wait_all_tasks_blocked()
            progress.enter(Stage.EXCHANGED)
            progress.end(None)
            progress.end(ERROR)
    assert heard == ["https://as.example/", Callback(code="c", state="s"), None]
    assert progress.stage is Stage.KEPT


async def test_one_that_fails_before_there_is_a_link_has_none():
    progress = Progress("notes")
    progress.end(ERROR)
    assert (await progress.asked(), await progress.ended()) == (None, ERROR)
    progress.take(Callback(code="c"))
    assert progress.stage is Stage.FAILED
