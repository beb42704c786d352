"""The generated descriptions of the three tools: what a model knows before its first call.

Owns their wording, their shape and their fit into a token budget. Called by the gateway when it lists its
tools, and by the Python API for the lists alone. Pure functions over frozen snapshots; nothing here is kept
between calls. Promises:

* the three together cost no more than the budget by `mcpx.rendering.tokens.estimate`, with any catalogue;
* servers stand in the order given; what does not fit is shortened for the largest server first, one step at
  a time, and a text that was shortened says how to see the rest;
* upstream text stays inside its line: it cannot look like another entry of the list.

`descriptions` holds the fixed sentences and shares the budget out, `tool_list` and `resource_list` say how
a server looks at each step, `ladder` chooses the steps.
"""

from mcpx.rendering.descriptions.descriptions import INSTRUCTIONS, Descriptions, describe
from mcpx.rendering.descriptions.resource_list import describe_resources
from mcpx.rendering.descriptions.tool_list import describe_tools

__all__ = ["INSTRUCTIONS", "Descriptions", "describe", "describe_resources", "describe_tools"]
