"""A server on FastMCP for the matrix: what server-everything does not have, and every kind of result once."""

from __future__ import annotations

from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.types import Image

MCP: FastMCP[Any] = FastMCP("fast")
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c020000000b4944415478da63fccff01f0002850"
    "141b4e8c9a70000000049454e44ae426082"
)


@MCP.tool
def greet(name: str) -> str:
    """Answer with a greeting."""
    return f"Hello, {name}"


@MCP.tool
def weather(city: str) -> dict[str, Any]:
    """Answer with an object."""
    return {"city": city, "degrees": 21.5, "days": [{"rain": False, "n": n} for n in range(3)]}


@MCP.tool
def picture() -> Image:
    """Answer with an image."""
    return Image(data=PIXEL, format="png")


@MCP.tool
def fail() -> str:
    """Fail with a reason."""
    raise ToolError("it does not work")


@MCP.tool
async def grow(context: Context) -> str:
    """Add a tool, and say so to the client."""
    MCP.tool(lambda: "new", name="grown")
    await context.info("grown")
    return "grown"


@MCP.resource("data://{name}/text")
def text(name: str) -> str:
    """A text with a name in it."""
    return f"text of {name}"


@MCP.resource("data://fixed")
def fixed() -> str:
    """A text that stays the same."""
    return "fixed"


@MCP.prompt
def review(code: str) -> str:
    """Ask for a review."""
    return f"Review {code}"


if __name__ == "__main__":
    MCP.run(show_banner=False)
