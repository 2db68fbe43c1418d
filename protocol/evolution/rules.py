"""The rules of evolution, read from their files: one each, in ``spec/rules``.

A file says what a rule means and carries its fixtures; how a change is found is code in this package, under the same id. A
test runs every fixture of every file, and holds that no finding names a rule without a file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from kvpoll.spec.schema import Snapshot

from .edit import Edit, edited
from .findings import Severity
from .snapshots import load

__all__ = ["Fixture", "Rule", "base", "rule_of", "rules"]


class Fixture(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pair of snapshots: the base of all fixtures with the edits of ``old``, and that with the edits of ``new``."""

    says: str
    old: tuple[Edit, ...] = ()
    new: tuple[Edit, ...] = ()
    version: str = "1.1"  #: of the new one

    def pair(self) -> tuple[Snapshot, Snapshot]:
        """Old and new."""
        before = edited(base(), self.old)
        return before, edited(before, (Edit(op="set-snapshot", to={"version": self.version}), *self.new))


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule. ``positive`` fixtures make it speak, ``negative`` ones do not."""

    id: str
    title: str
    means: str
    severity: Severity
    directions: tuple[str, ...]
    fix: str
    positive: tuple[Fixture, ...] = ()
    negative: tuple[Fixture, ...] = ()


@cache
def rules() -> Mapping[str, Rule]:
    """Every rule by its id, in the order of their names. Raises ``ValueError`` naming a file that is none."""
    found = {}
    folder = files("kvpoll.spec").joinpath("rules")
    for path in sorted(folder.iterdir(), key=lambda p: p.name):
        if not path.name.endswith(".toml"):
            continue
        try:
            rule = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Rule)
        except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
            raise ValueError(f"{path.name}: {error}") from None
        if path.name != f"{rule.id}.toml":
            raise ValueError(f"{path.name}: id: expected the name of its file, got {rule.id!r}")
        found[rule.id] = rule
    return found


@cache
def base() -> Snapshot:
    """The schema that every fixture starts from."""
    return load(files("kvpoll.spec").joinpath("rules", "base.json").read_bytes())


def rule_of(name: str) -> Rule:
    """Raises ``LookupError`` with the known ids."""
    try:
        return rules()[name]
    except KeyError:
        raise LookupError(f"rule: expected one of {', '.join(rules())}, got {name}") from None
