"""The configuration file: whether it can be used, what is odd in it, and who may read it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final

from mcpx.core.config.findings import Finding as Place
from mcpx.core.config.sanity import literal_secrets
from mcpx.core.running import Environment
from mcpx.paths import config_hint
from mcpx.setup.doctor.files import readable_by_others
from mcpx.setup.doctor.findings import Finding, note, ok, wrong
from mcpx.setup.doctor.installation import Installation

ENV_FILE: Final = re.compile(r"\benv_?file(\[\d+\])?$", re.IGNORECASE)
"""The end of the path of a file of variables, of which only is noted that others can read it."""


def check_configuration(installation: Installation) -> Iterator[Finding]:
    """Check the configuration file, but for the commands in it."""
    config, source = installation.config, installation.examined.source
    if not os.path.exists(installation.file):  # noqa: PTH110 - False where it cannot be seen
        (place,) = installation.examined.findings
        text = f"there is no configuration: {place.text.partition('; mcpx ')[0]}"
        option = config_hint(source)
        yield wrong(source, text, f"mcpx import{option}, or: mcpx add{option} NAME -- COMMAND")
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
    """Where commands are looked for, and who says so."""
    if environment.problem is None:
        yield ok("PATH", f"{environment.path} (from {environment.source})", path=environment.path)
    else:
        text = (
            f"{environment.problem}; commands are looked for on the PATH of this process: {environment.path}"
        )
        yield wrong("login shell", text, 'mend its start-up files, or turn it off: "login_shell": false')
