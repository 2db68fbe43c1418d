"""Where ``kvpoll schema`` finds snapshots: files, folders, and what git had there at some commit."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from kvpoll.protocol.evolution.changed_version import version_of
from kvpoll.protocol.evolution.report import Source
from kvpoll.protocol.evolution.snapshots import to_json
from kvpoll.protocol.schema_export import load, snapshot
from kvpoll.spec import schema as spec_schema

__all__ = ["CannotCheck", "baselines", "edited", "frozen_folder", "source_of"]


class CannotCheck(Exception):
    """The check could not be made: exit status 2. Says what is missing, and what was expected."""


def source_of(path: Path | None) -> Source:
    """The snapshot in a file; without one the schema of this kvpoll itself."""
    if path is None:
        taken = snapshot()
        return Source(
            snapshot=taken, path=f"spec/snapshots/v{taken.version.replace('.', '_')}.json", text=to_json(taken)
        )
    try:
        return _read(path.read_bytes(), str(path))
    except OSError as error:
        raise CannotCheck(f"{path}: cannot be read: {error.strerror}") from None


def frozen_folder() -> Path:
    """The released snapshots of kvpoll itself."""
    return Path(spec_schema.__file__).parent / "snapshots"


def baselines(against: str | None, new: Source, path: Path | None) -> list[Source]:
    """The baselines of a check, oldest first. ``against``: a file, a folder of files, or a git ref, at which the same folder
    is read; left out: the frozen snapshots (of kvpoll), or the other files of the schema's folder. Raises
    :class:`CannotCheck` when there is none."""
    folder = frozen_folder() if path is None else path.parent
    if against is None:
        found = _of_folder(folder, new, None if path is None else path)
    elif Path(against).is_dir():
        found = _of_folder(Path(against), new, path)
    elif Path(against).is_file():
        found = [source_of(Path(against))]
    else:
        found = _of_git(against, folder, new)
    others = sorted({s.snapshot.schema for s in found} - {new.snapshot.schema})
    found = [s for s in found if s.snapshot.schema == new.snapshot.schema]
    if not found:
        where = against or folder
        also = f" (there are {', '.join(others)})" if others else ""
        raise CannotCheck(f"--against {where}: expected a snapshot of {new.snapshot.schema!r} there, found none{also}")
    return sorted(found, key=lambda s: (version_of(s.snapshot.version), s.snapshot.version))


def _read(text: bytes, name: str) -> Source:
    try:
        return Source(snapshot=load(text, edited=True), path=name, text=text.decode())
    except ValueError as error:  # also what msgspec and the codec of text raise
        raise CannotCheck(f"{name}: {error}") from None


def _of_folder(folder: Path, new: Source, itself: Path | None) -> list[Source]:
    try:
        paths = sorted(p for p in folder.iterdir() if p.suffix == ".json")
    except OSError as error:
        raise CannotCheck(f"{folder}: cannot be read: {error.strerror}") from None
    return [source_of(p) for p in paths if itself is None or p.resolve() != itself.resolve()]


def _of_git(ref: str, folder: Path, new: Source) -> list[Source]:
    top = _git(folder, "rev-parse", "--show-toplevel").strip()
    if _git(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", check=False).strip() == "":
        raise CannotCheck(f"--against {ref}: expected a file, a folder or a git ref, found none of them")
    inside = folder.resolve().relative_to(Path(top).resolve()).as_posix()
    names = _git(
        folder, "ls-tree", "--full-tree", "--name-only", f"{ref}:{inside}" if inside != "." else ref
    ).splitlines()
    prefix = "" if inside == "." else f"{inside}/"
    return [
        _read(_git(folder, "show", f"{ref}:{prefix}{name}").encode(), f"{ref}:{prefix}{name}")
        for name in names
        if name.endswith(".json")
    ]


def _git(folder: Path, *arguments: str, check: bool = True) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise CannotCheck(f"git: cannot be run: {error.strerror}") from None
    if check and done.returncode:
        raise CannotCheck(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def edited(found: Iterable[Source]) -> list[str]:
    """Baselines of git whose file says something else today."""
    changed = []
    for source in found:
        ref, colon, name = source.path.partition(":")
        if colon and Path(name).is_file() and Path(name).read_text() != source.text:
            changed.append(f"{name} is not what it was at {ref}")
    return changed
