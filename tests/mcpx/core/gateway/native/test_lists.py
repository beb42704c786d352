"""The native lists as forms: what is read is clean, what is used is exact."""

from __future__ import annotations

from mcpx.core.catalog.model import PromptInfo, ResourceInfo, TemplateInfo
from mcpx.core.gateway.native import lists

HIDDEN = "\u202e\u00ad\u3164\U000e0041\x1b[2J"
WELL = "Zwei Zeilen\r\n\tund ein \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
SHOWN = "a[2Jb"


def test_titles_and_descriptions_are_clean_and_names_are_exact():
    evil = f"a{HIDDEN}b"
    said = {"title": evil, "description": evil}
    resource = lists.list_entry(ResourceInfo(server_name="s", uri=f"x:{HIDDEN}", name=evil, **said))
    template = lists.list_entry(TemplateInfo(server_name="s", uri_template="x:{a}", name=evil, **said))
    arguments = [{"name": evil, "description": evil, "required": True}, {"name": "plain"}]
    prompt = lists.list_entry(PromptInfo(server_name="s", name=evil, arguments=arguments, **said))
    for entry in (resource, template, prompt):
        assert (entry["title"], entry["description"]) == (SHOWN, SHOWN)
    assert resource["uri"].endswith(HIDDEN)
    assert resource["name"] == template["name"] == evil
    assert prompt["name"] == f"s.{evil}"
    assert prompt["arguments"] == [{"name": evil, "description": SHOWN, "required": True}, {"name": "plain"}]


def test_what_harms_nobody_is_as_it_came():
    entry = lists.list_entry(ResourceInfo(server_name="s", uri="x:1", name="n", title=WELL, description=WELL))
    assert (entry["title"], entry["description"]) == (WELL, WELL)
