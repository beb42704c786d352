"""The rules of one server: which of its tools, resources and prompts there are, by the patterns of a person.

Made from the configuration once for each server and profile, and asked by `mcpx.core.policy.policy` alone. A
pattern is broad where it restricts and narrow where it allows: names and URIs are chosen by servers, and none
may be chosen so that a rule for something else fits it. What a server suggests for an argument of a template
(`admitted_completion`) is filtered likewise. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import translate
from typing import Any, Final, Protocol
from unicodedata import normalize
from urllib.parse import unquote

from mcpx.core.catalog.model import JSON
from mcpx.core.catalog.naming import FORMS, SCHEME, segment_of
from mcpx.core.catalog.templates import matches_any
from mcpx.core.catalog.uris import canonical, decoded, read_liberally, readings, same_letters
from mcpx.core.config.per_server import AccessRules, ToolRules
from mcpx.core.text import holds_controls

Fits = Callable[[str], object]
MAX_KEPT: Final = 4096  # names of tools, by which it is known whether a person is asked
_WILD: Final = re.compile(r"[*?\[{]")
_IPV6: Final = re.compile(r"[^/]*//\[[0-9A-Fa-f:.]+\](?=[:/]|$)")  # brackets that are no wildcard
_EXPRESSION: Final = re.compile(r"\{[^{}]*\}")
_VARIABLES: Final = re.compile(r"\{[+#./;?&]?([^{}]*)\}")
CONTROLS: Final = "resources: a URI with control characters"
"""The rule by which such a URI is not sent: what is left of it differs from reader to reader."""


class NameRules:
    """Which tools or prompts of a server there are. `key` is what the rules stand under in the file.

    A thing is asked about by the name that its server has for it, of which `names` gives all that it has: a
    rule by any of them holds. What is asked is in their `allow`, too, if it is to be there (`joined`).
    """

    def __init__(
        self,
        key: str,
        server: str,
        rules: AccessRules,
        aliases: tuple[str, ...] = (),
        names: Callable[[str], tuple[str, ...]] = lambda name: (name,),
    ) -> None:
        self._key = key
        self._names = names
        self._servers = (server, *aliases)
        self._deny = [(pattern, _glob(_composed(pattern))) for pattern in rules.deny]
        ask = rules.ask if isinstance(rules, ToolRules) else ()
        self._ask = [(pattern, _glob(_composed(pattern))) for pattern in ask]
        self._asked: dict[str, str | None] = {}  # what was found, for the next calls
        self._allow: list[Fits] | None = None
        if rules.allow is not None:
            self._allow = [
                fits for pattern in rules.allow for fits in names_of_server(pattern, *self._servers)
            ]

    @property
    def restrict(self) -> bool:
        """True if there may be something that they do not admit."""
        return bool(self._deny) or self._allow is not None

    @property
    def ask(self) -> bool:
        """True if there may be something that a person is asked about."""
        return bool(self._ask)

    def against(self, name: str) -> str | None:
        """The rule by which there is no such thing; None where there may be one."""
        if (denied := self._broadly(self._deny, name)) is not None:
            return f"{self._key}.deny: {denied}"
        if self._allow is None or any(fits(each) for each in self._names(name) for fits in self._allow):
            return None
        return f"{self._key}.allow"

    def asked(self, name: str) -> str | None:
        """The rule by which a person is asked first; None where nobody is."""
        if not self._ask:
            return None
        try:
            return self._asked[name]
        except KeyError:
            pass
        if len(self._asked) >= MAX_KEPT:
            self._asked.clear()
        found = self._broadly(self._ask, name)
        rule = self._asked[name] = None if found is None else f"{self._key}.ask: {found}"
        return rule

    def _broadly(self, patterns: list[tuple[str, Fits]], name: str) -> str | None:
        """The first of the patterns that fits the name, alone or behind that of its server."""
        if not patterns:
            return None
        names = [_composed(each) for each in self._names(name)]
        names += [f"{_composed(server)}.{each}" for each in names for server in self._servers]
        return next((pattern for pattern, fits in patterns if any(map(fits, names))), None)


class URIRules:
    """Which resources and resource templates of a server there are."""

    def __init__(self, server: str, rules: AccessRules, aliases: tuple[str, ...] = ()) -> None:
        names = (server, *aliases)
        self._deny = [
            (pattern, [_glob(form) for form in _pattern_readings(own)])
            for pattern in rules.deny
            for own in _own_part(pattern, names)
        ]
        self._allow: list[_Allowed] | None = None
        if rules.allow is not None:
            self._allow = [_Allowed(own) for each in rules.allow for own in _own_part(each, names)]
        self.restrict = rules.allow is not None or bool(self._deny)
        """True if there may be something that they do not admit."""

    def against(self, uri: str, *, listed: bool = False) -> str | None:
        """The rule by which there is no resource with that URI; None where there may be one.

        One that is not `listed` is denied with a query, too, where it is denied without, and with control
        characters in any case.
        """
        if self.restrict and not listed and holds_controls(decoded(uri)):
            return CONTROLS
        if self._deny:
            spelled = readings(uri)
            if not listed:
                spelled |= {each.partition("?")[0] for each in spelled}
            if (rule := self._denying(spelled)) is not None:
                return rule
        if self._allow is None:
            return None
        plain = decoded(uri)
        forms = {plain, _without_steps(plain)}
        if not any(each.names(uri) for each in self._allow):
            forms.add(read_liberally(uri))
        if any(each.fits(uri) for each in self._allow) and all(
            any(each.fits_plain(form) for each in self._allow) for form in forms
        ):
            return None
        return "resources.allow"

    def against_template(self, template: str) -> str | None:
        """The rule by which a template is not listed: it is denied, or can make no URI that is allowed."""
        if self.restrict and holds_controls(decoded(template)):
            return CONTROLS
        if self._deny and (rule := self._denying(readings(template))) is not None:
            return rule
        if self._allow is None or any(each.may_fit(template) for each in self._allow):
            return None
        return "resources.allow"

    def _denying(self, spelled: Iterable[str]) -> str | None:
        spelled = list(spelled)
        for pattern, forms in self._deny:
            if any(fits(each) for fits in forms for each in spelled):
                return f"resources.deny: {pattern}"
        return None


class _Allowed:
    """A pattern of URIs that there are; it may be a resource template."""

    def __init__(self, pattern: str) -> None:
        self._template = pattern if "{" in pattern else None
        self._prefix = _WILD.split(pattern, maxsplit=1)[0]
        self._pattern = pattern
        self._glob, self._decoded = _glob(pattern), _glob(unquote(pattern))
        self._canonical = _glob(_canonical_head(same_letters(unquote(pattern))))

    def names(self, uri: str) -> bool:
        """Return True if it is just this URI."""
        return uri == self._pattern

    def fits(self, uri: str) -> bool:
        """Return True if it fits a URI as it was given."""
        if self._glob(uri):
            return True
        return self._template is not None and matches_any((self._template,), uri)

    def fits_plain(self, uri: str) -> bool:
        """Return True if it fits a URI that was decoded."""
        return bool(self._decoded(uri) or self._canonical(uri)) or self.fits(uri)

    def may_fit(self, template: str) -> bool:
        """Return True if a URI that fits may come of a template."""
        start = template.partition("{")[0]
        return self.fits(template) or start.startswith(self._prefix) or self._prefix.startswith(start)


def _glob(pattern: str) -> Fits:
    """Make the test whether a text is the pattern, or fits it."""
    return re.compile(rf"{translate(pattern)}|{re.escape(pattern)}\Z").match


def _composed(text: str) -> str:
    """The text with each letter written in the one way of two: an accent may be a character of its own."""
    return text if text.isascii() else normalize("NFC", text)


def names_of_server(pattern: str, *servers: str) -> list[Fits]:
    """Make the tests of a pattern of names, or of `server.name`, for a server, which may have several names.

    Only the part before a dot may fit the server's name, and only the part behind it that of a tool: no tool
    comes under the pattern of another server by its name.
    """
    return [fits for server in servers for fits in _of_server(pattern, server)]


def _of_server(pattern: str, server: str) -> Iterator[Fits]:
    if "." not in pattern:
        yield _glob(pattern)
        return
    for dot in (found.start() for found in re.finditer(r"\.", pattern)):
        if _glob(pattern[:dot])(server):
            yield _glob(pattern[dot + 1 :])


def _own_part(pattern: str, servers: Iterable[str]) -> Iterator[str]:
    """A pattern of URIs as it is, or of MCPX's forms of them what it says of this server's."""
    if not pattern.startswith(SCHEME):
        yield pattern
    for start, scheme in FORMS.items():
        host, slash, own = pattern.removeprefix(start).partition("/")
        if pattern.startswith(start) and any(_glob(host)(segment_of(server, start)) for server in servers):
            yield scheme + (own if slash else "*")


def _pattern_readings(pattern: str) -> set[str]:
    """The forms of a pattern that denies, to be held against those of a URI."""
    forms = {same_letters(form) for form in (pattern, unquote(pattern), _EXPRESSION.sub("*", pattern))}
    return {form.casefold() for form in forms | {_canonical_head(form) for form in forms}}


def _canonical_head(pattern: str) -> str:
    """A pattern with the folder before its first wildcard in canonical form."""
    address = _IPV6.match(pattern)
    wild = _WILD.search(pattern, address.end() if address else 0)
    end = len(pattern) if wild is None else pattern.rfind("/", 0, wild.start()) + 1
    head = canonical(pattern[:end])
    return (head.replace("[", "[[]") if address else head) + pattern[end:]


def _without_steps(uri: str) -> str:
    """The URI with the steps of its path resolved, and nothing else changed."""
    if "/." not in uri and "\\." not in uri:
        return uri
    kept: list[str] = []
    for segment in uri.replace("\\", "/").split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    return "/".join(kept)


# --- completions


class AdmitsResources(Protocol):
    """A policy, as far as it is about resources."""

    @property
    def restricts_resources(self) -> bool: ...

    def admits_resource(self, uri: str) -> bool: ...

    def admits_template(self, template: str) -> bool: ...


def admitted_completion(
    result: JSON, policy: AdmitsResources, template: str, argument: str, resolved: Mapping[str, Any]
) -> JSON:
    """The result of `completion/complete` with the values that there may be resources for.

    `resolved` are the arguments that have their values already.
    """
    completion = result.get("completion")
    if not policy.restricts_resources or not isinstance(completion, dict):
        return result
    values = completion.get("values")
    if not isinstance(values, list):
        return result
    kept = [value for value in values if _admits(policy, template, {**resolved, argument: value})]
    if len(kept) == len(values):
        return result
    shown = completion | {"values": kept}
    if isinstance(total := completion.get("total"), int):
        shown["total"] = max(len(kept), total - len(values) + len(kept))
    return result | {"completion": shown}


def _admits(policy: AdmitsResources, template: str, values: Mapping[str, Any]) -> bool:
    def value(found: re.Match[str]) -> str:
        names = [name.partition(":")[0].removesuffix("*") for name in found[1].split(",")]
        known = [str(values[name]) for name in names if name in values]
        return ",".join(known) if len(known) == len(names) else found[0]

    made = _VARIABLES.sub(value, template)
    if "{" in made:
        return policy.admits_template(made)
    return policy.admits_resource(made)
