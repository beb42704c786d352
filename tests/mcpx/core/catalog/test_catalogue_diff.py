"""What counts as a change between two catalogues."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mcpx.core.catalog.model import Catalogue, Diff, PromptInfo, ResourceInfo, TemplateInfo, ToolInfo, diff

TOOLS = {name: ToolInfo(server_name="s", name=name, input_schema={"type": "object"}) for name in "ab"}
RESOURCES = {uri: ResourceInfo(server_name="s", uri=uri, name=uri) for uri in ("x:a", "x:b")}
TEMPLATES = tuple(TemplateInfo(server_name="s", uri_template=f"x:{{{name}}}", name=name) for name in "ab")
PROMPTS = tuple(PromptInfo(server_name="s", name=name) for name in "ab")
WHOLE = Catalogue(
    generation=1,
    tools=TOOLS,
    resources=RESOURCES,
    templates=TEMPLATES,
    prompts=PROMPTS,
    server_title="S",
    server_version="1",
    instructions="Use it.",
    protocol_version="2025-06-18",
)


def changed(entries: dict, key: str, **fields) -> dict:
    return {**entries, key: replace(entries[key], **fields)}


def test_nothing_changed_whatever_the_incarnation_or_the_order():
    again = replace(
        WHOLE,
        generation=2,
        tools=dict(reversed(changed(TOOLS, "a", order=("inputSchema", "name")).items())),
        resources=dict(reversed(RESOURCES.items())),
        templates=(TEMPLATES[1], replace(TEMPLATES[0], order=("uriTemplate", "name"))),
        prompts=PROMPTS[::-1],
        protocol_version="2025-11-25",
    )
    assert diff(WHOLE, again) == Diff()
    assert not diff(WHOLE, again)


def test_the_first_catalogue_is_all_new_and_an_empty_one_nothing():
    assert diff(None, WHOLE) == Diff(tools=True, resources=True, prompts=True, about=True)
    assert not diff(None, Catalogue(generation=1))


@pytest.mark.parametrize(
    ("fields", "differs"),
    [
        ({"tools": {"a": TOOLS["a"]}}, Diff(tools=True)),
        ({"tools": changed(TOOLS, "a", description="new")}, Diff(tools=True)),
        ({"tools": changed(TOOLS, "a", input_schema={"type": "object", "required": []})}, Diff(tools=True)),
        ({"tools": changed(TOOLS, "a", annotations={"readOnlyHint": True})}, Diff(tools=True)),
        ({"tools": changed(TOOLS, "a", execution={"taskSupport": "optional"})}, Diff(tools=True)),
        ({"tools": changed(TOOLS, "a", more={"x": None})}, Diff(tools=True)),
        ({"resources": changed(RESOURCES, "x:a", more={"x": 1})}, Diff(resources=True)),
        ({"prompts": (PROMPTS[0], replace(PROMPTS[1], more={"x": 1}))}, Diff(prompts=True)),
        ({"resources": {}}, Diff(resources=True)),
        ({"resources": changed(RESOURCES, "x:a", size=3)}, Diff(resources=True)),
        ({"templates": TEMPLATES[:1]}, Diff(resources=True)),
        ({"prompts": (*PROMPTS, PROMPTS[0])}, Diff(prompts=True)),
        ({"prompts": (PROMPTS[0], replace(PROMPTS[1], arguments=[{"name": "x"}]))}, Diff(prompts=True)),
        ({"server_title": "T"}, Diff(about=True)),
        ({"server_version": "2"}, Diff(about=True)),
        ({"instructions": None}, Diff(about=True)),
        ({"tools": {}, "instructions": ""}, Diff(tools=True, about=True)),
    ],
)
def test_any_field_of_any_entry_counts_for_its_list_alone(fields, differs):
    found = diff(WHOLE, replace(WHOLE, **fields))
    assert found == differs
    assert found


def test_equal_entries_are_not_unequal():
    again = {name: replace(tool) for name, tool in TOOLS.items()}
    assert not any(tool != again[name] for name, tool in TOOLS.items())
