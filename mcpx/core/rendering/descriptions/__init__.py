"""The generated descriptions of the three tools: what a model knows before its first call.

Owns their wording, their shape and their fit into a token budget; the instructions as well. Called by the
gateway when it lists its tools and greets a client, and by the Python API for the lists alone. Pure functions
over frozen snapshots. Promises:

* the three together cost no more than the budget by `mcpx.core.rendering.tokens.estimate`, with any
catalogue; * they are equal to the byte as long as the servers offer the same: servers, tools and resources
stand in the
  order of their names, and of a server's state only what lasts is shown (`needs setup`);
* what does not fit is shortened for the largest server first, one step at a time, and a text that was
  shortened says how to see the rest;
* upstream text stays inside its line: it cannot look like another entry of the list.

`descriptions` holds the fixed sentences and shares the budget out, `servers` names the servers where a client
may cut a text, `tool_list` and `resource_list` say how a server looks at each step, `ladder` chooses the
steps.
"""

from mcpx.core.rendering.descriptions.descriptions import Descriptions, QueryTool, describe
from mcpx.core.rendering.descriptions.resource_list import describe_resources
from mcpx.core.rendering.descriptions.servers import instructions, native_instructions
from mcpx.core.rendering.descriptions.tool_list import describe_tools

__all__ = [
    "Descriptions",
    "QueryTool",
    "describe",
    "describe_resources",
    "describe_tools",
    "instructions",
    "native_instructions",
]
