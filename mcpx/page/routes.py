"""The addresses of the page: `/ui/`, its files, the stream, and what the views ask and do.

`index.html` is the page itself, whatever the view. Its policy allows scripts, styles and fonts of the page's
own, and no others. It names one script, and holds the style sheet, so that a browser paints it without
another request; both are made of the files of `static/` (`script`, `style`). What is static is read or made
once, when it is first asked for; a browser that has it asks whether it is still the same.

The sources stay as they are: modules that import one another, and a style sheet for each view. `script` puts
each module into a function of its own, those first that others import, and has its `import` and `export` read
and give values. It refuses forms that the sources and the libraries do not have, and circles. The same files
give the same bytes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.resources import as_file, files
from posixpath import dirname, join, normpath
from typing import Any, Final, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mcpx.core.daemon.hub import Hub
from mcpx.core.gateway.clients.sessions import ClientSessions
from mcpx.page.access import Access, PageMemory
from mcpx.page.answers import get, post
from mcpx.page.cards import OpenPage
from mcpx.page.events import Streams
from mcpx.page.guard import HINT, OPEN, PREFIX, SESSION, Guard, cookie_name, port_of
from mcpx.page.views import calls, model, overview, server, setup

LIBRARIES: Final[Mapping[str, str]] = {
    "preact": "vendor/preact.mjs",
    "preact/hooks": "vendor/preact-hooks.mjs",
    "htm": "vendor/htm.mjs",
}
"""The modules that are imported by a name, and the file of each."""
_FROM: Final = r'\s*from\s*"([^"]+)";?'
# each begins with the word itself, which `re` looks for many times as fast as for the beginning of a line
_IMPORT: Final = re.compile(rf"import\b(?<=^import)([^;\"]*?){_FROM}", re.MULTILINE)
_EXPORT_FROM: Final = re.compile(rf"export(?<=^export)\s*(\*|\{{[^}}]*\}}){_FROM}", re.MULTILINE)
_EXPORT: Final = re.compile(
    r"export (?<=^export )((?:async function|function|const|class) (\w+))", re.MULTILINE
)
_EXPORT_DEFAULT: Final = re.compile(r"export default (?=function)")
_EXPORT_LIST: Final = re.compile(r"export\s*\{([^}]*)\};?\s*\Z")
_LEFT: Final = re.compile(r"(?:import|export)\b(?:(?<=^import)|(?<=^export)).*", re.MULTILINE)
_SOURCE_MAP: Final = re.compile(r"//# sourceMappingURL=.*\n?")
_NAMES: Final = re.compile(r"([\w$]+)(?: as ([\w$]+))?")


class BundleError(Exception):
    """A module has a form that is not understood, or imports what imports it; the text names it."""


def script(sources: Mapping[str, str], first: str) -> str:
    """The module `first` with all that it imports, as one. `sources` are texts by their paths.

    Raises:
        BundleError: One cannot be put into it.
    """
    made: dict[str, str] = {}
    variables: dict[str, str | None] = {}  # None while the imports of a module are added

    def add(path: str) -> str:
        """Add a module behind those that it imports, and return the variable of its exports."""
        if path not in variables:
            if path not in sources:
                raise BundleError(f"{path}: there is no such module")
            variables[path] = None
            inner = _as_function(path, sources[path], add)
            variables[path] = f"$module{len(made)}"
            made[path] = f"// --- {path}\nconst {variables[path]} = {inner}\n"
        if (variable := variables[path]) is None:
            raise BundleError(f"{path}: imports what imports it")
        return variable

    add(first)
    return "".join(made.values())


def style(sources: Mapping[str, str]) -> str:
    """The style sheets in one, those of views behind the common one."""
    paths = sorted(sources, key=lambda path: (dirname(path), path))
    return "".join(f"/* --- {path} */\n{sources[path].strip()}\n" for path in paths)


def _as_function(path: str, text: str, variable_of: Callable[[str], str]) -> str:
    """A module as a call of a function that returns its exports."""
    exports: list[str] = []

    def imported(found: re.Match[str]) -> str:
        variable = variable_of(_path_of(found[2], path))
        clause = found[1].strip()
        if clause.startswith("* as "):
            return f"const {clause.removeprefix('* as ')} = {variable};"
        if clause.startswith("{"):
            return f"const {_members(clause, '{}: {}', path)} = {variable};"
        return f"const {{ default: {clause} }} = {variable};"

    def passed_on(found: re.Match[str]) -> str:
        variable = variable_of(_path_of(found[2], path))
        if found[1] == "*":
            exports.append(f"...{variable}")
        else:
            exports.append(_members(found[1], f"{{1}}: {variable}.{{0}}", path)[2:-2])
        return ""

    def listed(found: re.Match[str]) -> str:
        exports.append(_members(f"{{{found[1]}}}", "{1}: {0}", path)[2:-2])
        return ""

    def declared(found: re.Match[str]) -> str:
        exports.append(found[2])
        return found[1]

    text = _SOURCE_MAP.sub("", text)
    text = _IMPORT.sub(imported, text)
    text = _EXPORT_FROM.sub(passed_on, text)
    text = _EXPORT_LIST.sub(listed, text)
    text, defaults = _EXPORT_DEFAULT.subn("const $default = ", text)
    exports += ["default: $default"] * defaults
    text = _EXPORT.sub(declared, text)
    if left := _LEFT.search(text):
        raise BundleError(f"{path}: cannot be put into one script: {left[0][:80]}")
    return f"(() => {{\n{text.strip()}\nreturn {{ {', '.join(exports)} }};\n}})();"


def _members(clause: str, form: str, path: str) -> str:
    """`{a, b as c}` as members, each by `form` of both names."""
    names = [_NAMES.fullmatch(each.strip()) for each in clause.strip("{} \n,").split(",")]
    if None in names:
        raise BundleError(f"{path}: cannot be put into one script: {clause[:80]}")
    return f"{{ {', '.join(form.format(each[1], each[2] or each[1]) for each in names if each)} }}"


def _path_of(named: str, importer: str) -> str:
    """The path of an imported module."""
    return LIBRARIES.get(named) or normpath(join(dirname(importer), named))


_LEVEL: Final = 4  # of compression: half the time of the usual one, for little more
_TAG_DIGITS: Final = 32
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
}
_NAME: Final = re.compile(r"(?:[a-z0-9-]+/)*[a-z0-9.-]+\.(css|mjs|svg|woff2)")
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src '{}'; connect-src 'self'; img-src 'self' data: blob:;"
    " font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
PAGE: Final = "index.html"
SCRIPT: Final = "page.mjs"
_STYLE: Final = "<!-- style -->"
MAX_NONCE_CHARS: Final = 100
VIEWS = (overview, server, calls, model, setup)


def index(request: Request) -> Response:
    """The page; in a thread, as its files."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return _sent(request, PAGE, {"content-security-policy": _POLICY.format(f"sha256-{digest}")})


def file(request: Request) -> Response:
    """One of its files; in a thread, since the first time takes a while."""
    name = request.path_params["name"]
    if _NAME.fullmatch(name) is None:
        return PlainTextResponse("Not found\n", 404)
    try:
        content = _content(name)
    except OSError:  # there is none, or none can have such a name
        return PlainTextResponse("Not found\n", 404)
    headers = {"etag": content.tag, "cache-control": "no-cache", "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == content.tag:
        return Response(status_code=304, headers=headers)
    return _sent(request, name, headers)


def _sent(request: Request, name: str, headers: dict[str, str]) -> Response:
    content, kind = _content(name), _TYPES[name.rpartition(".")[2]]
    if content.packed is None or "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(content.plain, media_type=kind, headers=headers)
    return Response(content.packed, media_type=kind, headers=headers | {"content-encoding": "gzip"})


class _Content(NamedTuple):
    """A file as it is sent: by itself, compressed if that halves it, and the tag of both."""

    plain: bytes
    packed: bytes | None
    tag: str


@cache
def _content(name: str) -> _Content:
    plain = _read(name) if name not in {PAGE, SCRIPT} else _made(name).encode()
    packed = gzip.compress(plain, _LEVEL, mtime=0)
    digest = hashlib.sha256(plain).hexdigest()[:_TAG_DIGITS]
    return _Content(plain, packed if 2 * len(packed) < len(plain) else None, f'W/"{digest}"')


def _made(name: str) -> str:
    """The one script, or the page with its style sheet."""
    if name == SCRIPT:
        return script(_sources("mjs"), "app.mjs")
    return _read(PAGE).decode().replace(_STYLE, f"<style>{_style()}</style>")


@cache
def _style() -> str:
    return style(_sources("css"))


def _sources(kind: str) -> dict[str, str]:
    with as_file(files("mcpx.page") / "static") as folder:
        paths = folder.rglob(f"*.{kind}")
        return {each.relative_to(folder).as_posix(): each.read_text("utf-8") for each in paths}


def _read(name: str) -> bytes:
    return (files("mcpx.page") / "static" / name).read_bytes()


def application(page: OpenPage, streams: Streams) -> ASGIApp:
    """The page as an ASGI application, with everything that guards it."""
    views = [route for view in VIEWS for route in view.routes(page)]
    app = Starlette(
        routes=[
            Route(PREFIX, _to_page),
            Route(f"{PREFIX}/", index),
            Route(f"{PREFIX}/static/{{name:path}}", file),
            Route(OPEN, partial(_open, page)),
            get("/here", _here, page),
            get("/key", _key, page),
            post("/sign-out", _sign_out, page),
            Route(f"{PREFIX}/api/events", _Events(streams), methods=["GET"]),
            *views,
        ]
    )
    return Guard(app, page.access)


async def _to_page(_request: Request) -> Response:
    return RedirectResponse(f"{PREFIX}/")


async def _open(page: OpenPage, request: Request) -> Response:
    """Take a code, and give a cookie for it.

    The browser goes on by itself, from a page of this origin: after a redirect it would keep a strict cookie
    back, where it came from another site's link. What only looks ahead (HEAD, a prefetch) uses up nothing.
    """
    looks_ahead = request.method != "GET" or "prefetch" in request.headers.get("sec-purpose", "")
    code = request.query_params.get("code", "")
    secret = None if looks_ahead else page.access.redeem(code, port_of(request.scope))
    if secret is None:
        return PlainTextResponse(f"This link was used, or is too old. {HINT}", 401)
    response = HTMLResponse(
        f'<!doctype html><html lang="en"><meta http-equiv="refresh" content="0; url={PREFIX}/">'
        f'<title>MCPX</title><p><a href="{PREFIX}/">Continue</a></html>'
    )
    cookie = f"{cookie_name(request.scope)}={secret}; HttpOnly; Path={PREFIX}; SameSite=Strict"
    response.headers["set-cookie"] = cookie
    return response


async def _here(page: OpenPage, request: Request) -> Any:
    """`{proof}` for the nonce of a window that asks whether its daemon is there, and lets it in."""
    return {"proof": page.memory.proof(request.query_params.get("nonce", "")[:MAX_NONCE_CHARS])}


async def _key(page: OpenPage, _request: Request) -> Any:
    """`{key}`, by which a window knows its daemon when that was started again."""
    return {"key": page.memory.key}


async def _sign_out(page: OpenPage, request: Request) -> Any:
    """End the session of this page."""
    page.access.end(request.scope[SESSION])
    return {"signed_out": True}


class ServedPage:
    """A page that is served: its streams, and the ASGI application with everything that guards it."""

    def __init__(self, hub: Hub, clients: ClientSessions, access: Access, memory: PageMemory) -> None:
        page = OpenPage(hub, clients, access, memory)
        self.streams = Streams(page, {name: topic for view in VIEWS for name, topic in view.TOPICS.items()})
        self.app = application(page, self.streams)


class _Events:
    """The endpoint of the stream; an ASGI application."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":  # which Starlette allows where it allows GET
            await Response(media_type="text/event-stream")(scope, receive, send)
        else:
            await self._streams.serve(scope, receive, send)
