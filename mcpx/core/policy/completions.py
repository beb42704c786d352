"""What a server suggests for an argument of a template, without what would make a denied URI. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from mcpx.core.catalog.model import JSON
from mcpx.core.policy.policy import ServerPolicy

_EXPRESSION: Final = re.compile(r"\{[+#./;?&]?([^{}]*)\}")


def admitted_completion(
    result: JSON, policy: ServerPolicy, template: str, argument: str, resolved: Mapping[str, Any]
) -> JSON:
    """The result of `completion/complete` with the values that there may be resources for.

    `resolved` are the arguments that have their values already.
    """
    completion = result.get("completion")
    if not policy.restricts_resources or not isinstance(completion, dict):
        return result
    values = completion.get("values")
    if not isinstance(values, list):
        return result
    kept = [value for value in values if _admits(policy, template, {**resolved, argument: value})]
    if len(kept) == len(values):
        return result
    shown = completion | {"values": kept}
    if isinstance(total := completion.get("total"), int):
        shown["total"] = max(len(kept), total - len(values) + len(kept))
    return result | {"completion": shown}


def _admits(policy: ServerPolicy, template: str, values: Mapping[str, Any]) -> bool:
    def value(found: re.Match[str]) -> str:
        names = [name.partition(":")[0].removesuffix("*") for name in found[1].split(",")]
        known = [str(values[name]) for name in names if name in values]
        return ",".join(known) if len(known) == len(names) else found[0]

    made = _EXPRESSION.sub(value, template)
    if "{" in made:
        return policy.admits_template(made)
    return policy.admits_resource(made)
