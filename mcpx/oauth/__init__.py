"""Signing in to servers that want it: OAuth 2.1 as MCP has it, for a daemon that people sign in to once.

An `Account` has the tokens of one server and puts them on its requests; it refreshes them ahead of their
expiry, one at a time. `Accounts` has those of all servers. The protocol itself is the SDK's (`provider`); a
person is asked by `sign_in` alone, and never from within a call. Tokens are kept by a `TokenStore`.
"""
