"""Errors raised by this package. Their base is `SupervisorError`."""

from __future__ import annotations


class SupervisorError(Exception):
    """Base of every error that this package raises on purpose."""


class MailboxFull(SupervisorError):
    """The mailbox holds as many messages as it may; nothing was put in."""


class MailboxClosed(SupervisorError):
    """The mailbox takes no more messages; nothing was put in."""


class NoSuchChild(SupervisorError, LookupError):
    """No child of that name is supervised here."""


class DuplicateChild(SupervisorError, ValueError):
    """A child of that name is supervised here already."""


class TooManyRestarts(SupervisorError):
    """Children failed more often than the restart intensity allows: the supervisor gives up."""


class SignificantChildFailed(SupervisorError):
    """A significant child ended with a failure, and its supervisor with it."""
