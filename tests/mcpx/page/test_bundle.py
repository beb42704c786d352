"""The page's one script holds all its modules, is always the same, and refuses what is not understood."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import mcpx.page
from mcpx.page import routes
from tests.mcpx.page.visiting import Visitor, served

STATIC = Path(mcpx.page.__file__).parent / "static"


def sources(suffix: str) -> dict[str, str]:
    return {each.relative_to(STATIC).as_posix(): each.read_text() for each in STATIC.rglob(f"*{suffix}")}


def test_every_module_and_every_style_sheet_is_in_it_once() -> None:
    modules, styles = sources(".mjs"), sources(".css")
    script = routes.script(modules, "app.mjs")
    assert sorted(re.findall(r"^// --- (\S+\.mjs)$", script, re.MULTILINE)) == sorted(modules)
    style = routes.style(styles)
    order = re.findall(r"^/\* --- (\S+\.css) \*/$", style, re.MULTILINE)
    assert order[0] == "style.css"  # what views say has the last word
    assert sorted(order) == sorted(styles)


def test_the_same_sources_make_the_same_bytes() -> None:
    modules = sources(".mjs")
    turned = dict(reversed(modules.items()))
    assert routes.script(modules, "app.mjs") == routes.script(turned, "app.mjs")


FORMS = {
    "app.mjs": """import {
  first, second as other,
} from "./sub/names.mjs";
import * as all from "./sub/names.mjs";
import made from "./made.mjs";
import { passed, third as last } from "./passing.mjs";
const names = Object.keys(all).sort();
console.log(JSON.stringify([first(), other, last, names, made(), new passed().is]));
""",
    "sub/names.mjs": """export function first() { return "first"; }
export const second = 2;
const hidden = 3;
export { hidden as third };
""",
    "made.mjs": 'var it="made";export default function(){return it}\n//# sourceMappingURL=made.mjs.map\n',
    "passing.mjs": """export * from "./sub/names.mjs";
export { Named as passed } from "./named.mjs";
""",
    "named.mjs": "export class Named { is = 'named'; }\n",
}


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js is installed")
def test_each_form_does_what_it_does_as_modules(tmp_path: Path) -> None:
    for name, text in FORMS.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "page.mjs").write_text(routes.script(FORMS, "app.mjs"))
    said = [
        subprocess.run(["node", tmp_path / name], check=True, capture_output=True, timeout=60).stdout
        for name in ("app.mjs", "page.mjs")
    ]
    assert said[0] == said[1] == b'["first",2,3,["first","second","third"],"made","named"]\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('import "./other.mjs";\n', r"app\.mjs: cannot be put into one script: import"),
        ("export let changing = 1;\n", r"app\.mjs: cannot be put into one script: export let"),
        ('import { a } from "./none.mjs";\n', r"none\.mjs: there is no such module"),
        ('import { a } from "./other.mjs";\n', r"app\.mjs: imports what imports it"),
        ('import { "odd name" as a } from "./other.mjs";\n', r"app\.mjs: cannot be put"),
    ],
)
def test_what_it_does_not_understand_is_refused(text: str, problem: str) -> None:
    others = {"other.mjs": 'import { b } from "./app.mjs";\nexport const a = b;\n'}
    with pytest.raises(routes.BundleError, match=problem):
        routes.script({"app.mjs": text, **others}, "app.mjs")


@pytest.mark.anyio
async def test_it_is_sent_compressed_and_only_where_it_is_another_one(tmp_path, monkeypatch):
    async with served(tmp_path, monkeypatch) as page:
        visitor = await Visitor.entering(page)
        for name in (routes.SCRIPT, "style.css"):
            address = f"/ui/static/{name}"
            plain = await visitor.get(address)
            packed = await visitor.get(address, more=[("Accept-Encoding", "br, gzip")])
            assert packed.headers["content-encoding"] == "gzip"
            assert gzip.decompress(packed.body) == plain.body
            assert len(packed.body) < len(plain.body) / 2
            same = await visitor.get(address, more=[("If-None-Match", plain.headers["etag"])])
            assert (same.status, same.body) == (304, b"")
            other = await visitor.get(address, more=[("If-None-Match", 'W/"other"')])
            assert other.status == 200
        page_itself = await visitor.get("/ui/", more=[("Accept-Encoding", "gzip")])
        style = gzip.decompress(page_itself.body).partition(b"<style>")[2].partition(b"</style>")[0]
        digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
        assert f"style-src 'sha256-{digest}';" in page_itself.headers["content-security-policy"]
        font = await visitor.get("/ui/static/vendor/inter.woff2", more=[("Accept-Encoding", "gzip")])
        assert font.body == (STATIC / "vendor/inter.woff2").read_bytes()
        assert "content-encoding" not in font.headers  # it is compressed as it is
