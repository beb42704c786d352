"""The screens of `mcpx top`, driven by keys, with what a daemon would say put in their place."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from rich.color import ColorType

from mcpx.core.daemon.status import ChangeStatus, Cost, SignInStatus
from mcpx.core.store.paths import DaemonPaths
from mcpx.top.app import Answered, Restarted, Top
from mcpx.top.polling import Answer, Polling
from mcpx.top.screens import ClientsScreen, Confirm, DetailsScreen, HelpScreen, LogScreen
from mcpx.top.servers import ServersScreen
from tests.mcpx.top.statuses import server, status, tokens

WICKED = "[red]x[/] <script>\x1b[2J\n\u202e" + "y" * 5000
PATIENCE_S = 50.0
NARROW, USUAL, WIDE = (24, 8), (80, 24), (200, 50)


@pytest.fixture
def anyio_backend():
    return "asyncio"  # textual's


class Scripted(Polling):
    """Asks nobody; what is said comes from the test."""

    def __init__(self, folder: Path) -> None:
        files = [folder / name for name in DaemonPaths._fields[1:]]
        super().__init__(DaemonPaths(str(folder / "config.json"), *files))
        self.restarted: list[str] = []

    def begin(self, took):
        self.took = took

    def restart(self, server, done):
        self.restarted.append(server)
        done(f"restarted {server}: ready", True)


class Shown:
    """The app on a terminal of that size."""

    def __init__(self, folder, *servers, **fields):
        self.polling = Scripted(folder)
        self.app = Top(self.polling, status(*servers, **fields))

    @asynccontextmanager
    async def open(self, size=USUAL):
        async with self.app.run_test(size=size, notifications=True) as self.pilot:
            await self.pilot.pause()
            yield self

    async def press(self, *keys):
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def say(self, *servers, problem=None, uses=None, **fields):
        said = None if problem else status(*servers, **fields)
        self.polling.took(Answer(said, problem, uses or {}, time.monotonic()))
        await self.pilot.pause()
        await self.pilot.pause()

    async def until(self, text):
        """Wait for what is drawn a little later."""
        with anyio.fail_after(PATIENCE_S):
            while text not in self.text:
                await self.pilot.pause(0.01)

    @property
    def lines(self):
        """What stands on the screen."""
        width = self.app.size.width
        strips = self.app.screen._compositor.render_strips()
        lines = ["".join(segment.text for segment in strip) for strip in strips]
        assert all(len(line.encode("utf-16-le")) // 2 <= width for line in lines)
        assert not any(character in line for line in lines for character in "\x1b\u202e\n")
        return [line.rstrip() for line in lines]

    @property
    def colours(self):
        """The kinds of colours on the screen."""
        strips = self.app.screen._compositor.render_strips()
        styles = [segment.style for strip in strips for segment in strip if segment.style is not None]
        return {colour.type for style in styles for colour in (style.color, style.bgcolor) if colour}

    @property
    def text(self):
        return "\n".join(self.lines)

    @property
    def names(self):
        """The first words of the rows of the table."""
        return [row.name for row in self.app.screen_stack[0]._shown]


@pytest.mark.anyio
async def test_it_reads_like_this(tmp_path):
    servers = [
        server(calls=2044, tokens=tokens(90_000, 4_000)),
        server("web", "waiting", pid=None, next_attempt_in_s=3.9, last_error="connection refused"),
    ]
    async with Shown(tmp_path, *servers).open() as shown:
        await shown.press("down")
        lines = shown.lines
        assert lines[0].startswith("mcpx 9.9  pid 1, up 3h05, 2 clients, 1 of 2 servers ready")
        assert lines[2].split()[:5] == ["server", "state", "up", "re", "calls"]
        assert lines[3].split()[:5] == ["files", "ready", "1m", "0", "2044"]
        assert lines[4].startswith("web      retries in 4s")
        assert lines[-5].startswith("─ web ─")
        assert lines[-5].endswith("─ 2 servers, by configuration ─")
        assert lines[-4] == "connection refused"
        assert lines[-1].split() == [
            *("⏎", "Details", "l", "Log", "r", "Restart", "e", "On/off", "/", "Filter", "s", "Sort"),
            *("c", "Clients", "?", "Help", "q", "Quit"),
        ]


@pytest.mark.anyio
async def test_figures_change_and_the_chosen_server_stays_chosen(tmp_path):
    async with Shown(tmp_path, server("a"), server("b"), server("c")).open() as shown:
        await shown.press("down", "s")  # by name
        await shown.say(server("aa"), server("b", "parked", last_error="it died"), server("a"), server("c"))
        assert shown.names == ["a", "aa", "b", "c"]
        assert "it died" in shown.lines[-4]
        await shown.say(server("c"), server("a"))
        assert "─ a ─" in shown.text


@pytest.mark.anyio
async def test_a_daemon_that_goes_is_said_and_one_that_returns_is_shown(tmp_path):
    async with Shown(tmp_path, server(calls=1)).open() as shown:
        await shown.say(problem="no daemon serves x; start one with: mcpx daemon start")
        assert "no daemon serves x; start one with: mcpx daemon start" in shown.text
        assert "files" in shown.text, "what was known stays"
        await shown.say(server(calls=1), pid=77)
        assert "no daemon" not in shown.text
        assert "pid 77" in shown.lines[0]


@pytest.mark.anyio
async def test_of_many_servers_those_that_want_somebody_stand_first(tmp_path):
    many = [server(f"s{n:02}", pid=n + 1) for n in range(20)]
    many[17] = server("s17", "needs setup", pid=None, last_error="environment variable KEY is not set")
    async with Shown(tmp_path, *many).open() as shown:
        assert shown.names[:3] == ["s17", "s00", "s01"]
        assert shown.lines[-5].endswith("─ 20 servers, by faults ─")
        await shown.press("s")
        assert shown.names[:2] == ["s00", "s01"]


@pytest.mark.anyio
async def test_words_filter_and_escape_shows_all_again(tmp_path):
    servers = [server("git"), server("web", "parked", last_error="refused"), server("mail")]
    async with Shown(tmp_path, *servers).open() as shown:
        await shown.press("slash", *"refu")
        assert shown.names == ["web"]
        await shown.press("enter", "l")
        assert isinstance(shown.app.screen, LogScreen), "keys go to the rows again"
        await shown.press("escape")
        assert "1 of 3 servers" in shown.text
        await shown.press("slash", *"zzz")
        assert shown.names == []
        assert "no server matches the filter" in shown.text
        await shown.press("enter", "r", "l", "enter")
        assert isinstance(shown.app.screen, ServersScreen), "there is nothing to act on"
        await shown.press("escape")
        assert shown.names == ["git", "web", "mail"]


@pytest.mark.anyio
async def test_restarting_asks_first(tmp_path):
    async with Shown(tmp_path, server("a", in_flight=3)).open() as shown:
        for keys in (("r", "n"), ("r", "escape"), ("r", "enter")):
            await shown.press(*keys)
            assert isinstance(shown.app.screen, ServersScreen)
        assert shown.polling.restarted == []
        await shown.press("r")
        assert isinstance(shown.app.screen, Confirm)
        assert "Restart a? It has 3 calls in flight." in shown.text
        await shown.press("y")
        assert shown.polling.restarted == ["a"]
        await shown.until("restarted a: ready")


@pytest.mark.anyio
async def test_the_details_are_those_of_now(tmp_path):
    difference = ["- a", "+ b"]
    change = ChangeStatus(kind="new", tool="t", summary="t is new", difference=difference, blocked=True)
    sign_in = SignInStatus(command="mcpx login a", problem="it has expired")
    known = {"tokens": tokens(900, 90, tools={"search": Cost(direct=900, spent=90)}), "changes": [change]}
    async with Shown(tmp_path, server("a", sign_in=sign_in, **known)).open((80, 40)) as shown:
        await shown.press("enter")
        assert isinstance(shown.app.screen, DetailsScreen)
        for said in ("stdio, 2025-06-18, pid 812", "p50 1.2, p95 12, p99 40", "t is new", "+ b"):
            assert said in shown.text
        assert "it has expired" in shown.text
        assert "search     900    90   90 %" in shown.text
        await shown.say(server("a", "parked", last_error="gone away"))
        assert "gone away" in shown.text
        await shown.say(server("other"))
        assert "it is no longer in the configuration" in shown.text
        await shown.press("escape")
        assert isinstance(shown.app.screen, ServersScreen)


@pytest.mark.anyio
async def test_clients_and_help_have_screens(tmp_path):
    clients = {"claude-code": Cost(direct=1000, spent=100), "cursor": Cost(direct=10, spent=100)}
    async with Shown(tmp_path, tokens=tokens(1010, 200, clients=clients)).open() as shown:
        await shown.press("c")
        assert isinstance(shown.app.screen, ClientsScreen)
        assert [line.split()[0] for line in shown.lines if "00 " in line][1:3] == ["claude-code", "cursor"]
        assert "-900 %" in shown.text
        await shown.press("escape", "question_mark")
        assert isinstance(shown.app.screen, HelpScreen)
        assert "restart it; asks first" in shown.text
        assert "no servers are configured" not in shown.text
        await shown.press("escape")
        assert "no servers are configured: mcpx setup, or mcpx add" in shown.text


@pytest.mark.anyio
@pytest.mark.parametrize("size", [NARROW, USUAL, WIDE])
async def test_nothing_that_a_server_is_called_or_says_is_obeyed_or_markup(tmp_path, size):
    change = ChangeStatus(kind="new", tool=WICKED, summary=WICKED, difference=[WICKED], blocked=True)
    costs = {WICKED: Cost(direct=5, spent=1)}
    wicked = server(
        WICKED,
        "parked",
        last_error=WICKED,
        transport=WICKED,
        changes=[change],
        sign_in=SignInStatus(command=WICKED, problem=WICKED, scopes=[WICKED], expires_at=WICKED),
        tokens=tokens(5, 1, tools=costs),
    )
    more = {
        "tokens": tokens(5, 1, clients=costs),
        "config_error": WICKED,
        "pins_error": WICKED,
    }
    async with Shown(tmp_path, wicked, **more).open(size) as shown:
        assert "[red]x" in shown.text
        await shown.press("enter")
        assert "[red]x[/] <script>" in shown.text
        await shown.press("escape", "c")
        assert shown.lines
        await shown.press("escape", "r")
        assert "Restart" in shown.text
        await shown.press("y")
        shown.app.post_message(Restarted(WICKED, is_good=False))
        await shown.pilot.pause()
        assert shown.lines
        await shown.press("l")
        assert isinstance(shown.app.screen, LogScreen)
        assert size == NARROW or "Log of [red]x" in shown.text
        await shown.say(problem=WICKED)
        assert shown.lines


@pytest.mark.anyio
async def test_the_log_stays_where_the_person_has_scrolled_and_follows_the_end_otherwise(tmp_path):
    async with Shown(tmp_path, server("a")).open() as shown:
        shown.polling.log_of("a", shown.app.overview.status).parent.mkdir(parents=True)
        await shown.press("l")
        screen = shown.app.screen
        assert isinstance(screen, LogScreen)
        screen.post_message(LogScreen.Lines([f"line {number}" for number in range(100)], None))
        await shown.pilot.pause()
        assert "line 99" in shown.text
        await shown.press("home")
        screen.post_message(LogScreen.Lines(["newest"], None))
        await shown.pilot.pause()
        assert "line 0" in shown.text
        assert "newest" not in shown.text
        await shown.press("end")
        assert "newest" in shown.text
        screen.post_message(LogScreen.Lines([], "cannot be read: no"))
        await shown.pilot.pause()
        assert "cannot be read: no" in shown.lines[0]


@pytest.mark.anyio
async def test_seventy_busy_servers_are_drawn_in_a_small_part_of_a_second(tmp_path):
    def servers(calls):
        return [server(f"server-{at}", pid=at + 1, calls=calls * at, in_flight=at % 3) for at in range(70)]

    async with Shown(tmp_path, *servers(0)).open() as shown:
        await shown.press("end")
        assert "server-69" in shown.text
        began = time.process_time()
        for calls in range(1, 11):
            await shown.say(*servers(calls))
        assert (time.process_time() - began) / 10 < 0.3, "a third of a core would be too much even here"
        assert "server-69" in shown.text, "it has stayed where it was"


@pytest.mark.anyio
async def test_no_screen_has_other_colours_than_the_sixteen_of_the_terminal(tmp_path):
    busy = [server(f"s{at}", "parked", last_error="x" * 900, tokens=tokens(9, 1)) for at in range(50)]
    async with Shown(tmp_path, *busy, config_error="no").open() as shown:
        for keys in ("enter", "l", "c", "question_mark", "r", "slash"):
            await shown.press(keys)
            if isinstance(shown.app.screen, LogScreen):
                shown.app.screen.post_message(LogScreen.Lines(["z" * 200] * 50, None))
                await shown.pilot.pause()
            shown.app.notify("said", severity="error")
            await shown.until("said")
            assert shown.colours <= {ColorType.DEFAULT, ColorType.STANDARD}
            await shown.press("escape")


@pytest.mark.anyio
async def test_another_size_of_the_window_has_other_columns(tmp_path):
    async with Shown(tmp_path, server("a", last_error="refused")).open() as shown:
        assert "last error" not in shown.lines[2]
        await shown.pilot.resize_terminal(200, 30)
        await shown.pilot.pause()
        await shown.pilot.pause()
        assert shown.lines[2].endswith("last error")
        assert "earlier: refused" in shown.lines[3]
        await shown.pilot.resize_terminal(20, 6)
        await shown.pilot.pause()
        assert shown.lines


@pytest.mark.anyio
async def test_news_after_the_end_is_dropped(tmp_path):
    async with Shown(tmp_path, server("a")).open() as shown:
        pass
    shown.app._tell(Answered(Answer(None, "late", {}, 0.0)))
