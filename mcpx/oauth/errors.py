"""The problems of a sign-in, in plain words. Standard library only: the command line prints these."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from mcpx.errors import MCPXError


class Problem(StrEnum):
    """The problem of a sign-in that failed."""

    NO_METADATA = "no_metadata"
    """The server does not say where to sign in."""
    METADATA_REFUSED = "metadata_refused"
    """What it says of that cannot be used: unreadable, too large, or for another server."""
    WRONG_ISSUER = "wrong_issuer"
    """The authorization server calls itself something else than it should."""
    INSECURE = "insecure"
    """An address that no credential may go to: without https, or in a private network."""
    REGISTRATION_REFUSED = "registration_refused"
    """The authorization server does not register MCPX as a client."""
    CLIENT_REFUSED = "client_refused"
    """It does not know the client, or not with this secret."""
    DENIED = "denied"
    """The person, or the authorization server, said no."""
    STATE_MISMATCH = "state_mismatch"
    """The browser came back with the state of another sign-in."""
    NO_ANSWER = "no_answer"
    """What was pasted is not the address that the browser came back to."""
    PORT_TAKEN = "port_taken"
    """The browser cannot return to this computer."""
    CODE_REFUSED = "code_refused"
    """The authorization server does not give a token for the code."""
    GRANT_REFUSED = "grant_refused"
    """It does not take the refresh token, or the client's own credentials."""
    UNREACHABLE = "unreachable"
    """It cannot be reached, or does not answer as it should: for now."""
    TIMED_OUT = "timed_out"
    """The person did not come back in time."""
    CANCELLED = "cancelled"
    NOT_FOR_PEOPLE = "not_for_people"
    """The server is not one that a person signs in to."""
    NOT_STORED = "not_stored"
    """The tokens cannot be kept."""


class SignInError(MCPXError):
    """A sign-in, or a refresh, failed. The text is a sentence without secrets that says what to do."""

    def __init__(self, problem: Problem, text: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.problem = problem
        self.retry_after_s = retry_after_s
        """The time that the authorization server asks to wait, in seconds."""

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain JSON, with its `problem`."""
        return {**super().to_dict(), "problem": str(self.problem)}

    @property
    def for_now(self) -> bool:
        """True if trying again later can help, without a person."""
        return self.problem is Problem.UNREACHABLE
