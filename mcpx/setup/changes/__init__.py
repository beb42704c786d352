"""Files that are not MCPX's own, changed so that nothing is lost: the clients' files and the configuration.

A command prepares an `Edit` for each file and has `carry_out` change all of them or none, with a copy of
each in a journal; `plan_undo` and `undo_last` take the last change back. A process that is killed at any
moment leaves every file old or new, whole, and the next command takes its change back. Knows nothing of MCP.
"""

from mcpx.setup.changes.carrying_out import Edit, carry_out, history, recover, unfinished
from mcpx.setup.changes.files import ChangeError, FileChanged, obstacle, read_file, real_path
from mcpx.setup.changes.journal import Change, State
from mcpx.setup.changes.undoing import Undo, plan_undo, undo_last, undone

__all__ = [
    "Change",
    "ChangeError",
    "Edit",
    "FileChanged",
    "State",
    "Undo",
    "carry_out",
    "history",
    "obstacle",
    "plan_undo",
    "read_file",
    "real_path",
    "recover",
    "undo_last",
    "undone",
    "unfinished",
]
