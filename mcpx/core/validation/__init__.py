"""Arguments of calls against the JSON Schemas of tools, on a budget.

`fast` accepts plain arguments at once; `full` (jsonschema, in a process of its own: see
`pool` and `worker`) decides and explains the rest; `checker` combines the two. `arguments` decodes what came,
`errors` says what is wrong with it, `bounds` has the limits.
No schema and no argument holds up the event loop for more than 50 ms.
"""
