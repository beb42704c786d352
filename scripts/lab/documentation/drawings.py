"""The drawings of the documentation as SVG, made of boxes, texts and arrows. Pure: no file is read.

Coordinates are pixels from the upper left corner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from xml.sax.saxutils import escape

import msgspec

FONT: Final = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
INK: Final = "#1f2937"
QUIET: Final = "#6b7280"
LINE: Final = "#94a3b8"
FILLS: Final = {
    "plain": ("#f8fafc", "#cbd5e1"),
    "client": ("#eff6ff", "#93c5fd"),
    "gateway": ("#ffffff", "#6366f1"),
    "tool": ("#eef2ff", "#a5b4fc"),
    "server": ("#f0fdf4", "#86efac"),
    "failed": ("#fef2f2", "#fca5a5"),
}
"""Fill and stroke of each kind of box."""


class Box(msgspec.Struct, frozen=True):
    """A rounded box with a title and lines below it."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()
    kind: str = "plain"
    top: bool = False  # the title stands at the top, and the rest of the box is free
    mono: bool = False


class Canvas:
    """Collects the elements of one drawing."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._size = (width, height)
        self._title = title
        self._elements: list[str] = []

    def box(self, box: Box) -> None:
        """Draw a box with its texts."""
        fill, stroke = FILLS[box.kind]
        self._elements.append(
            f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="8"'
            f' fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>'
        )
        height = 18 * len(box.lines)
        middle = box.x + box.width // 2
        first = box.y + 24 if box.top else box.y + (box.height - height) // 2 + 5
        self.text(middle, first, box.title, weight=600, mono=box.mono)
        for number, line in enumerate(box.lines, 1):
            self.text(middle, first + 18 * number, line, size=12, colour=QUIET)

    def text(
        self,
        x: int,
        y: int,
        text: str,
        *,
        size: int = 14,
        weight: int = 400,
        colour: str = INK,
        anchor: str = "middle",
        mono: bool = False,
    ) -> None:
        """Draw one line of text, by default centred at x."""
        font = "ui-monospace, SFMono-Regular, Menlo, monospace" if mono else FONT
        self._elements.append(
            f'<text x="{x}" y="{y}" font-family="{font}" font-size="{size}" font-weight="{weight}"'
            f' fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def arrow(
        self, start: tuple[int, int], end: tuple[int, int], *, both: bool = False, dashed: bool = False
    ) -> None:
        """Draw an arrow; `both` gives it two heads."""
        (x1, y1), (x2, y2) = start, end
        extra = ' marker-start="url(#head)"' if both else ""
        extra += ' stroke-dasharray="5 4"' if dashed else ""
        self._elements.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{LINE}" stroke-width="1.5"'
            f' marker-end="url(#head)"{extra}/>'
        )

    def svg(self) -> str:
        """The drawing."""
        width, height = self._size
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
            f' height="{height}" role="img">\n<title>{escape(self._title)}</title>\n'
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
            f' orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" fill="{LINE}"/></marker></defs>\n'
            f'<rect width="{width}" height="{height}" rx="10" fill="#ffffff"/>\n'
        )
        return head + "\n".join(self._elements) + "\n</svg>\n"


def overview() -> str:
    """Clients on the left, MCPX with its three tools in the middle, servers on the right."""
    canvas = Canvas(820, 330, "AI clients, MCPX with three tools, and the MCP servers behind it")
    canvas.text(90, 26, "AI clients", colour=QUIET)
    canvas.text(410, 26, "one daemon", colour=QUIET)
    canvas.text(730, 26, "MCP servers", colour=QUIET)
    for number, name in enumerate(("Claude Desktop", "Claude Code", "Cursor", "VS Code")):
        y = 46 + 68 * number
        canvas.box(Box(20, y, 140, 48, name, kind="client"))
        canvas.arrow((162, y + 24), (236, y + 24), both=True)
    canvas.box(Box(240, 46, 340, 252, "MCPX", kind="gateway", top=True))
    for number, (name, does) in enumerate(
        (("inspect", "find a tool"), ("exec", "run it"), ("resources", "read a resource"))
    ):
        canvas.box(Box(258 + 103 * number, 86, 98, 54, name, (does,), kind="tool", mono=True))
    canvas.box(Box(258, 152, 304, 40, "router: finds the server"))
    canvas.box(
        Box(
            258,
            204,
            304,
            78,
            "one supervised actor per server",
            ("session, queue, caches;", "restarted when it fails"),
        )
    )
    rows = (
        ("GitHub", "Streamable HTTP", "server"),
        ("filesystem", "stdio", "server"),
        ("browser", "crashed: restarting", "failed"),
        ("… 67 more", "", "server"),
    )
    for number, (name, note, kind) in enumerate(rows):
        y = 46 + 68 * number
        canvas.box(Box(660, y, 140, 48, name, (note,) if note else (), kind=kind))
        canvas.arrow((584, y + 24), (656, y + 24), both=True, dashed=kind == "failed")
    return canvas.svg()


def architecture() -> str:
    """The packages of MCPX from the clients down to the servers, with the path of a call."""
    canvas = Canvas(860, 600, "The packages of MCPX and the path of a call")
    for number, name in enumerate(
        ("stdio client", "client with attach", "HTTP client", "terminal, Python", "browser")
    ):
        canvas.box(Box(20 + 168 * number, 20, 148, 46, name, kind="client"))
    canvas.box(Box(188, 92, 148, 50, "attach/", ("the shim process",), mono=True))
    canvas.arrow((94, 68), (94, 172), both=True)
    canvas.arrow((262, 68), (262, 90), both=True)
    canvas.arrow((262, 144), (262, 172), both=True)
    canvas.arrow((430, 68), (430, 172), both=True)
    canvas.arrow((598, 68), (598, 282), both=True)
    canvas.arrow((766, 68), (766, 172), both=True)
    canvas.arrow((766, 262), (766, 282), both=True)
    canvas.box(Box(692, 176, 148, 84, "page/", ("views and events",), mono=True, kind="gateway"))
    canvas.box(
        Box(
            20,
            176,
            484,
            84,
            "gateway/",
            ("everything that a client sees",),
            kind="gateway",
            top=True,
            mono=True,
        )
    )
    for number, name in enumerate(("frontends/", "clients/", "native/", "tools/", "peer/")):
        canvas.text(72 + 98 * number, 250, name, size=13, mono=True, colour="#4f46e5")
    canvas.arrow((262, 262), (262, 282), both=True)
    canvas.box(
        Box(
            20,
            286,
            820,
            64,
            "core/",
            ("hub, fleet, registry, router: which server, and is the call valid",),
            mono=True,
            kind="gateway",
        )
    )
    canvas.box(Box(20, 376, 256, 56, "validation/", ("arguments against schemas",), mono=True))
    canvas.box(Box(302, 376, 256, 56, "rendering/", ("what the model reads: TOON, TypeScript",), mono=True))
    canvas.box(Box(584, 376, 256, 56, "catalog/", ("what the servers offer",), mono=True))
    for x in (148, 430, 712):
        canvas.arrow((x, 352), (x, 374))
    canvas.box(
        Box(
            20,
            458,
            560,
            66,
            "upstream/",
            ("one actor per server:  transport/   session/   offers/   relay/",),
            kind="gateway",
            mono=True,
        )
    )
    canvas.arrow((290, 352), (290, 456), both=True)
    canvas.box(Box(604, 458, 236, 66, "supervisors", ("starts, watches, restarts it",), mono=True))
    canvas.arrow((602, 491), (584, 491))
    for number, (name, note) in enumerate(
        (
            ("child process", "stdio"),
            ("remote server", "Streamable HTTP, SSE"),
            ("server on a node", "lines over TLS"),
            ("another MCPX", "HTTP, stdio"),
        )
    ):
        canvas.box(Box(20 + 142 * number, 550, 134, 44, name, (note,), kind="server"))
        canvas.arrow((87 + 142 * number, 526), (87 + 142 * number, 548), both=True)
    return canvas.svg()


DRAWINGS: Final[dict[str, Callable[[], str]]] = {"overview.svg": overview, "architecture.svg": architecture}
"""The drawings by the name of their file in `docs/images`."""
