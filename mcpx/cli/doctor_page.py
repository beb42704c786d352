"""What `mcpx doctor` prints: a page for people, and the same as JSON. Text of servers is never obeyed."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from mcpx.cli.printing import echo
from mcpx.core.text import one_line
from mcpx.setup.doctor.examination import Section
from mcpx.setup.doctor.installation import Finding
from mcpx.version import __version__

SIGNS: Final = {"ok": "ok   ", "note": "note ", "wrong": "WRONG"}
COLOURS: Final = {"ok": "green", "note": "yellow", "wrong": "red"}
INDENT: Final = " " * 8


def show(sections: list[Section]) -> None:
    """Print the page, and last what it comes to, where it is seen."""
    for section in sections:
        echo(section.title, bold=True)
        for finding in section.findings:
            _show_finding(finding)
    echo(f"\n{_summary(sections)}", bold=True)
    if any(each.fix is not None for section in sections for each in section.findings):
        echo("mcpx doctor --fix mends what can be mended safely")


def _show_finding(finding: Finding) -> None:
    line = f"  {SIGNS[finding.level]} {finding.subject}: {one_line(finding.text)}"
    echo(line, fg=None if finding.level == "ok" else COLOURS[finding.level])
    for each in str(finding.details.get("excerpt") or "").splitlines():
        echo(f"{INDENT}{each}")
    if finding.advice is not None:
        echo(f"{INDENT}-> {one_line(finding.advice)}")
    if finding.fix is not None and finding.fix.description != finding.advice:
        echo(f"{INDENT}-> mcpx doctor --fix: {finding.fix.description}")


def _summary(sections: list[Section]) -> str:
    counts = Counter(each.level for section in sections for each in section.findings)
    if not counts["wrong"]:
        return f"all is well{_and_notes(counts['note'])}"
    things = "1 thing is" if counts["wrong"] == 1 else f"{counts['wrong']} things are"
    return f"{things} wrong{_and_notes(counts['note'])}"


def _and_notes(number: int) -> str:
    return "" if not number else f", {number} note{'' if number == 1 else 's'}"


def as_object(sections: list[Section], mended: dict[str, str | None]) -> dict[str, Any]:
    """Return the page as plain JSON; `mended` are the fixes that were tried, with what went wrong or None."""
    findings = [_finding(section.title, each) for section in sections for each in section.findings]
    counts = Counter(each["level"] for each in findings)
    page: dict[str, Any] = {"ok": not counts["wrong"], "version": __version__}
    page |= {"wrong": counts["wrong"], "notes": counts["note"]}
    if mended:
        page["mended"] = [what for what, problem in mended.items() if problem is None]
        page["not_mended"] = {what: problem for what, problem in mended.items() if problem is not None}
    return page | {"findings": findings}


def _finding(title: str, finding: Finding) -> dict[str, Any]:
    found: dict[str, Any] = {
        "section": title,
        "level": finding.level,
        "subject": finding.subject,
        "text": one_line(finding.text),
    }
    if finding.advice is not None:
        found["advice"] = finding.advice
    if finding.command is not None:
        found["command"] = finding.command
    if finding.fix is not None:
        found["fix"] = finding.fix.description
    return found | ({"details": finding.details} if finding.details else {})
