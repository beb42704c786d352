"""Signing in to servers that want it: OAuth 2.1 as MCP has it, for a daemon that people sign in to once.

Two roads meet in a `Record`, what is kept of one sign-in (`record`), in a file or the keychain
(`token_store`).

A request: the transport asks the server's `Account` (`account`, `stored_account`) for a header, and shows it
each 401 and 403. The account renews its tokens ahead of their expiry, one flight at a time (`renewal`,
`token_requests`), takes in what another process has stored (`kept_record`), and never waits for a person: who
has to sign in first reads so in the error. `accounts` has those of all servers, and runs the refresher.

A person: `SignIns` begins a `SignIn` (`sign_in`), whose states are a table (`sign_in_progress`). `code_grant`
finds where to sign in (`discovery`), registers or picks a client (`client`), shows the person a link, and
gives the code that their browser brings (`callback`) for tokens. Every URL and every answer on that road
comes from somebody who may lie: `network` and `addresses` bound where requests go, `answers` and `challenge`
what is believed.
"""
