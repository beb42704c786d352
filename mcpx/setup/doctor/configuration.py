"""The user's own files: the configuration, its readers, approvals that wait, changes that were cut short."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mcpx.core.config.findings import Finding as Place
from mcpx.core.config.sanity import literal_secrets
from mcpx.core.policy.pin_files import PinFiles
from mcpx.core.policy.pin_record import pin_identity
from mcpx.core.policy.pins import ServerPins
from mcpx.core.policy.policy import ServerPolicy
from mcpx.core.running import Environment
from mcpx.paths import config_hint
from mcpx.setup.changes import recover, unfinished
from mcpx.setup.clients.masking import masked_arguments
from mcpx.setup.doctor.installation import Finding, Fix, Installation, note, ok, wrong

ENV_FILE: Final = re.compile(r"\benv_?file(\[\d+\])?$", re.IGNORECASE)
"""The end of the path of a file of variables, of which only is noted that others can read it."""
READ_BY_OTHERS: Final = stat.S_IRGRP | stat.S_IROTH
_SECRET_NAME: Final = re.compile(r"key|token|secret|passw|auth|credential|cookie|(^|_)pat$", re.IGNORECASE)
_OF_AUTH: Final = ("client_secret", "private_key")
_VARIABLE: Final = re.compile(r"\$\{[^}]*\}|\b(bearer|basic|token)\b", re.IGNORECASE)
MAX_NAMED: Final = 5  # changes of one server


def check_configuration(installation: Installation) -> Iterator[Finding]:
    """Check the configuration file, but for the commands in it."""
    config, source = installation.config, installation.examined.source
    if not os.path.exists(installation.file):
        (place,) = installation.examined.findings
        text = f"there is no configuration: {place.text.partition('; to begin')[0]}"
        yield wrong(source, text, f"mcpx setup{config_hint(source)}")
        return
    if config is not None:
        count = len(config.servers)
        yield ok(source, f"{count} server{'' if count == 1 else 's'}", servers=count)
        holding = [name for name, server in config.servers.items() if literal_secrets(server)]
        yield from readable_by_others(source, installation.file, holding)
        yield from _environment(installation.environment)
    for place in installation.examined.findings:
        if (place.path is not None and not place.keeps_from_starting) or place.level == "error":
            yield _placed(place, installation)


def _placed(place: Place, installation: Installation) -> Finding:
    source = installation.examined.source
    subject = source if place.line is None else f"{source}:{place.line}:{place.column}"
    is_whole = place.path in {None, "$"}
    text = place.text if is_whole else f"{place.text} (in {place.path})"
    if place.level == "note" and ENV_FILE.search(place.path or ""):  # others can read it
        return wrong(subject, text)
    if place.level == "note" or (place.level == "warning" and is_whole):  # none of the servers suffers
        return note(subject, text)
    advice = f"correct it; {installation.command('check')} says when all is well"
    return wrong(subject, text, advice, excerpt=place.excerpt)


def _environment(environment: Environment) -> Iterator[Finding]:
    """Report where commands are looked for, and who says so."""
    if environment.problem is None:
        yield ok("PATH", f"{environment.path} (from {environment.source})", path=environment.path)
    else:
        text = (
            f"{environment.problem}; commands are looked for on the PATH of this process: {environment.path}"
        )
        yield wrong("login shell", text, 'mend its start-up files, or turn it off: "login_shell": false')


# --- secrets in files


def holds_secret(entry: Mapping[str, Any]) -> bool:
    """Return True if a secret is written in an entry of MCPX's form: its name or its looks call it one."""
    auth = entry.get("auth")
    own = {key: auth.get(key) for key in _OF_AUTH} if isinstance(auth, Mapping) else {}
    values = {**entry.get("env", {}), **entry.get("headers", {}), **own}
    if any(
        _SECRET_NAME.search(name) and _VARIABLE.sub("", value or "").strip() for name, value in values.items()
    ):
        return True
    words = [entry.get("url", ""), *entry.get("args", ())]
    return masked_arguments(words) != words


def readable_by_others(
    subject: str, path: Path, holding: Sequence[str], *, found: Callable[..., Finding] = wrong
) -> Iterator[Finding]:
    """Find that others may read a file in which secrets of servers stand: `holding` are their names.

    It is `found` wrong for a file of MCPX, and worth a note for another program's.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if holding and mode & READ_BY_OTHERS:
        closed, target = stat.S_IMODE(mode) & 0o700, Path(os.path.realpath(path))
        text = f"{path} holds secrets ({', '.join(holding)}), and others may read it"
        chmod = f"chmod {closed:o} {shlex.quote(str(target))}"
        yield found(subject, text, chmod, fix=Fix(chmod, lambda: target.chmod(closed)))


def check_changes(_installation: Installation) -> Iterator[Finding]:
    """Check that every change that a command has begun has come to an end. That all have is no finding."""
    for change in unfinished():
        files = ", ".join(file.path for file in change.files)
        text = f"`{change.command}` was cut short at {change.at}; it was changing {files}"
        fix = Fix("put back what a change that was cut short had changed", recover)
        yield wrong(change.id, text, "mcpx undo", fix=fix)


# --- approvals and changes


def check_approvals(installation: Installation) -> Iterator[Finding]:
    """Check what is pinned of each server. That nothing waits is no finding."""
    config = installation.config
    if config is None:
        return
    files = PinFiles()
    for server in config.servers.values():
        if server.disabled is not None:
            continue
        policy = ServerPolicy(server)
        policy.pin(ServerPins(server, *files.load(pin_identity(server))))
        advice = installation.command("approve", server.name)
        changes = policy.changes()
        lost = [each.summary() for each in changes if each.kind == "pins"]
        if lost:
            yield wrong(server.name, lost[0], advice)
        elif changes:
            named = "; ".join(each.summary() for each in changes[:MAX_NAMED])
            more = f"; and {len(changes) - MAX_NAMED} more" if len(changes) > MAX_NAMED else ""
            found = wrong if any(each.blocked for each in changes) else note
            yield found(server.name, f"waits for approval: {named}{more}", advice)
