"""Arguments of calls against the JSON Schemas of tools, on a budget.

`fast` says yes at once to plain arguments; `full` (jsonschema, in a process of its own, see `pool` and
`worker`) decides and explains the rest; `checker` is the two together. `arguments` reads what came, `errors`
says what is wrong with it, `bounds` has the sizes.
No schema and no argument holds up the event loop for more than 50 ms.
"""
