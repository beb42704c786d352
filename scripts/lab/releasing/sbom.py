"""The bill of materials of a release as CycloneDX 1.6: what is locked for running, and what the page vendors.

Versions and digests are those of the lock, licences and dependencies those that the installed distributions
declare. The same checkout gives the same bill but for its time and serial number, which come from the caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import PackageNotFoundError, requires
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.lab.releasing.licences import installed_licence, vendored
from scripts.lib import lock

NAME: Final = "mcpx-gateway"
Bill = dict[str, Any]


def bill(version: str, licence: str, *, at: datetime, serial: UUID) -> Bill:
    """The bill of `version`, whose own licence is given."""
    known = {**lock.locked(lock.RUNTIME)}
    digests = lock.locked_digests(lock.RUNTIME)
    parts = [_distribution(name, number, digests[name]) for name, number in known.items()]
    parts += [_file(*each) for each in vendored()]
    needs = _needed(known)
    own = _own(version, licence)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"timestamp": at.isoformat(timespec="seconds"), "component": own},
        "components": parts,
        "dependencies": [
            {
                "ref": ref,
                "dependsOn": sorted(_pypi(each, known[each]) for each in needs.get(name, ())) + files,
            }
            for ref, name, files in [
                (own["bom-ref"], NAME, [f"page/{each.file}" for each in vendored()]),
                *((_pypi(name, number), name, list[str]()) for name, number in known.items()),
            ]
        ],
    }


def _own(version: str, licence: str) -> Bill:
    ref = _pypi(NAME, version)
    return {
        "type": "application",
        "bom-ref": ref,
        "name": NAME,
        "version": version,
        "purl": ref,
        "licenses": [{"expression": licence}],
    }


def _distribution(name: str, version: str, digests: list[str]) -> Bill:
    """A distribution; the digests are those of its wheels, any of which may be installed."""
    ref = _pypi(name, version)
    licence = installed_licence(name)
    return {
        "type": "library",
        "bom-ref": ref,
        "name": name,
        "version": version,
        "purl": ref,
        **({"licenses": [{"expression": licence}]} if licence else {}),
        "externalReferences": [
            {
                "type": "distribution",
                "url": ref,
                "comment": "a wheel of it",
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }
            for digest in digests
        ],
    }


def _file(file: str, package: str, version: str, licence: str, sha256: str) -> Bill:
    return {
        "type": "file",
        "bom-ref": f"page/{file}",
        "name": f"mcpx/page/static/vendor/{file}",
        "version": version,
        "purl": f"pkg:npm/{quote(package)}@{version}",
        "licenses": [{"expression": licence}],
        "hashes": [{"alg": "SHA-256", "content": sha256}],
    }


def _pypi(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


def _needed(known: dict[str, str]) -> dict[str, set[str]]:
    """What each distribution needs of what is locked, by name, with the extras that it is asked for with."""
    needs: dict[str, set[str]] = {}
    left: list[tuple[str, frozenset[str]]] = [(NAME, frozenset()), *((name, frozenset()) for name in known)]
    seen = set(left)
    while left:
        name, extras = left.pop()
        for one in _requirements(name, extras):
            other = canonicalize_name(one.name)
            if other in known:
                needs.setdefault(name, set()).add(other)
                if (asked := (other, frozenset(one.extras))) not in seen:
                    seen.add(asked)
                    left.append(asked)
    return needs


def _requirements(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    """What an installed distribution declares, on whatever system, with these extras."""
    try:
        declared = requires(name) or []
    except PackageNotFoundError:
        return
    for one in map(Requirement, declared):
        marker = one.marker
        of_extra = marker is not None and "extra" in str(marker)
        if not of_extra or any(marker and marker.evaluate({"extra": extra}) for extra in extras):
            yield one
