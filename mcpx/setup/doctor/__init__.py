"""Examining an MCPX as its user has it: what is wrong, what to type, and what can be mended safely.

`examine` runs the checks of `mcpx.setup.doctor.examination` and returns their findings; `mcpx doctor` prints
them. Nothing is changed by a check; a finding may hold a `Fix`, which is applied on request.
"""
