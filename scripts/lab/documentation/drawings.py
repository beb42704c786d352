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
    """The objects that a call meets, from the client down to the server."""
    canvas = Canvas(1000, 640, "The objects that a call meets")
    ways = (
        ("stdio, socket", "fast/", "from line to line"),
        ("HTTP, all the rest", "sdk_path", "by the SDK's server"),
        ("another MCPX", "peer/", "bytes as they came"),
        ("terminal, page", "calls", "waits for a result"),
        ("one server alone", "transparent/", "everything as it is"),
    )
    for number, (name, path, note) in enumerate(ways):
        x = 20 + 156 * number
        canvas.box(Box(x, 20, 140, 44, name, kind="client"))
        canvas.arrow((x + 70, 66), (x + 70, 88), both=True)
        canvas.box(Box(x, 92, 140, 56, path, (note,), mono=True, kind="gateway"))
        canvas.arrow(
            (x + 70, 150), (x + 70, 172 if number < len(ways) - 1 else 440), both=number == len(ways) - 1
        )
    rows = (
        (
            176,
            56,
            "Request: Exec, Read or Forward",
            "what is wanted, the arguments as they came, and who asks",
        ),
        (260, 66, "Pipeline", "trace · record · resolve · permit · check · ask · queue · settle"),
        (354, 66, "Server", "entry, offers, policy, account, rate, counters"),
    )
    for y, height, name, note in rows:
        canvas.box(Box(20, y, 608, height, name, (note,), kind="tool" if y < rows[1][0] else "gateway"))
    canvas.arrow((324, 234), (324, 256))
    canvas.arrow((324, 328), (324, 350), both=True)
    modes = (
        (20, 192, "Session: shared", "by all clients"),
        (228, 192, "other era", "for clients of the other one"),
        (436, 192, "per client", "a client's own"),
        (644, 140, "passthrough", "one client's, as it is"),
    )
    for x, width, name, note in modes:
        middle = x + width // 2
        if name != "passthrough":
            canvas.arrow((middle, 422), (middle, 440), both=True)
        canvas.box(Box(x, 444, width, 58, name, (note,), kind="tool"))
        canvas.arrow((middle, 504), (middle, 522), both=True)
    canvas.box(Box(20, 526, 764, 42, "transport/   processes, HTTP, lines over TLS", mono=True))
    for number, name in enumerate(("child process", "remote server", "server on a node", "another MCPX")):
        x = 20 + 203 * number
        canvas.arrow((x + 77, 570), (x + 77, 586), both=True)
        canvas.box(Box(x, 590, 155, 40, name, kind="server"))
    canvas.box(Box(820, 260, 160, 66, "Records", ("audit, meter, watch",)))
    canvas.arrow((630, 293), (816, 293))
    canvas.box(
        Box(820, 354, 160, 148, "Ports", ("Accounts, SignIns", "Peers", "Cluster, Placement", "Forwarder"))
    )
    canvas.arrow((816, 387), (632, 387))
    canvas.box(Box(820, 526, 160, 42, "oauth/ cluster/", mono=True))
    canvas.arrow((900, 524), (900, 506))
    return canvas.svg()


DRAWINGS: Final[dict[str, Callable[[], str]]] = {"overview.svg": overview, "architecture.svg": architecture}
"""The drawings by the name of their file in `docs/images`."""
