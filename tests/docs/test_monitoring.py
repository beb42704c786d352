"""The examples of docs/monitoring.md: their metrics exist, and Prometheus's own tool takes them."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from ruamel.yaml import YAML

from mcpx.core.daemon.metric_families import FAMILIES
from mcpx.core.gateway.frontends.http.frontend import HEALTHY, READY
from tests.docs import pages

TEXT = pages.read(pages.ROOT / "docs" / "monitoring.md")


def test_every_metric_that_is_named_exists():
    known = {family.name for family in FAMILIES} | {f"{each.name}_bucket" for each in FAMILIES}
    assert set(re.findall(r"\bmcpx_\w+", TEXT)) <= known


@pytest.mark.others
@pytest.mark.parametrize(
    ("kind", "command"), [("yaml alerts", ("check", "rules")), ("yaml scrape", ("check", "config"))]
)
def test_promtool_takes_the_examples(kind, command, tmp_path):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    file = tmp_path / "example.yml"
    (tmp_path / "mcpx.token").write_text("x")
    (block,) = pages.blocks(kind)
    file.write_text(block.text)
    done = subprocess.run(
        [promtool, *command, str(file)], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_probes_ask_what_there_is():
    (block,) = pages.blocks("yaml probes")
    paths = {each["httpGet"]["path"] for each in YAML(typ="safe").load(block.text).values()}
    assert paths == {HEALTHY, READY}
