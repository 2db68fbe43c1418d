"""``kvpoll schema``: does a change of a wire schema break a rolling upgrade?

Exit status, for every command: 0 fine, 1 breaking, 2 could not check.
"""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = ["schema"]

schema = typer.Typer(no_args_is_help=True, help="Check changes of a wire schema: kvpoll's own, or yours.")

_NEW = Annotated[
    Path | None, typer.Argument(help="A snapshot file. Left out: the schema of this kvpoll.", show_default=False)
]
_OUT = Annotated[Path | None, typer.Option("--out", help="Write to this file.", show_default=False)]


@schema.command()
def check(
    new: _NEW = None,
    against: Annotated[
        str | None,
        typer.Option(help="A file, a folder, or a git ref. Left out: every frozen snapshot.", show_default=False),
    ] = None,
    format: Annotated[str, typer.Option(help="text, json, junit, sarif, github or markdown.")] = "text",
    waivers: Annotated[Path | None, typer.Option(help="A TOML file of accepted findings.", show_default=False)] = None,
    order: Annotated[
        str | None, typer.Option(help="Promise an upgrade order: sender-first or receiver-first.", show_default=False)
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Let warnings fail, too.")] = False,
    every_pair: Annotated[
        bool, typer.Option("--every-pair", help="Compare the baselines with each other, too: all releases meet.")
    ] = False,
    out: _OUT = None,
) -> None:
    """Compare a schema with every baseline: what breaks, for whom, shown in bytes, and which upgrade order is safe."""
    from msgspec.structs import replace

    from kvpoll.protocol.evolution.report import check as run
    from kvpoll.protocol.evolution.reports import FORMATS
    from kvpoll.protocol.evolution.waivers import read_waivers

    from .schema_files import CannotCheck, baselines, edited, source_of

    try:
        if format not in FORMATS:
            raise CannotCheck(f"--format: expected one of {', '.join(FORMATS)}, got {format!r}")
        promised = _order(order)
        source = source_of(new)
        accepted = () if waivers is None else read_waivers(_text(waivers))
        found = baselines(against, source, new)
        report = run(
            source, found, accepted, date.today().isoformat(), strict=strict, order=promised, every_pair=every_pair
        )
        report = replace(report, problems=(*report.problems, *edited(found)))
        _write(FORMATS[format](report), out)
    except (CannotCheck, ValueError) as error:
        raise _cannot(error) from None
    raise typer.Exit(0 if report.verdict == "fine" else 1)


@schema.command()
def diff(
    old: Annotated[Path, typer.Argument(help="A snapshot file.")],
    new: Annotated[Path, typer.Argument(help="Another one.")],
    format: Annotated[str, typer.Option(help="text, json, junit, sarif, github or markdown.")] = "text",
    out: _OUT = None,
) -> None:
    """Compare two snapshots, and nothing else."""
    check(new, str(old), format, out=out)


@schema.command()
def explain(
    rule: Annotated[str | None, typer.Argument(help="A rule id. Left out: all of them.", show_default=False)] = None,
) -> None:
    """What a rule means, whom it hurts, and what to do instead."""
    from kvpoll.protocol.evolution.rules import rule_of, rules

    if rule is None:
        width = max(map(len, rules()))
        for each in rules().values():
            typer.echo(f"{each.id:<{width}}  {each.severity:<7}  {each.title}")
        return
    try:
        found = rule_of(rule.upper().replace("-", "_"))
    except LookupError as error:
        raise _cannot(error) from None
    typer.echo(f"{found.id} ({found.severity}): {found.title}\n\n{found.means}\n\nHurts: {', '.join(found.directions)}")
    typer.echo(f"Fix: {found.fix}\n")
    for kind, fixtures in (("Found", found.positive), ("Not found", found.negative)):
        for fixture in fixtures:
            typer.echo(f"{kind} when {fixture.says}.")


@schema.command()
def export(
    new: _NEW = None,
    format: Annotated[str, typer.Option(help="jsonschema, proto, markdown, or snapshot.")] = "jsonschema",
    out: _OUT = None,
) -> None:
    """A snapshot in another language."""
    from kvpoll.protocol.evolution.export import EXPORTS
    from kvpoll.protocol.evolution.snapshots import to_json

    from .schema_files import CannotCheck, source_of

    try:
        source = source_of(new)
        if format != "snapshot" and format not in EXPORTS:
            raise CannotCheck(f"--format: expected one of {', '.join(EXPORTS)}, snapshot, got {format!r}")
        _write(to_json(source.snapshot) if format == "snapshot" else EXPORTS[format](source.snapshot), out)
    except (CannotCheck, ValueError) as error:
        raise _cannot(error) from None


@schema.command()
def freeze(
    new: _NEW = None,
    to: Annotated[Path | None, typer.Option(help="The folder of frozen snapshots.", show_default=False)] = None,
) -> None:
    """Add a snapshot for a release. An existing one is never changed."""
    from kvpoll.protocol.evolution.snapshots import sealed, to_json
    from kvpoll.protocol.schema_export import load

    from .schema_files import CannotCheck, frozen_folder, source_of

    try:
        taken = sealed(source_of(new).snapshot)
        folder = to or (frozen_folder() if new is None else new.parent)
        path = folder / f"v{taken.version.replace('.', '_')}.json"
        if path.is_file():
            if load(path.read_bytes()) == taken:
                typer.echo(f"{path} holds this snapshot already")
                return
            raise CannotCheck(
                f"{path}: {taken.schema} {taken.version} is frozen and says something else; give it a new version"
            )
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(to_json(taken), encoding="utf-8")
    except (CannotCheck, ValueError, OSError) as error:
        raise _cannot(error) from None
    typer.echo(f"written: {path}")


@schema.command(name="import-slots")
def import_slots(
    layouts: Annotated[Path, typer.Argument(help="A JSON file with `layouts` of positional messages.")],
    out: Annotated[
        Path, typer.Option("--out", help="A folder: one snapshot for each release that changed a layout.")
    ] = Path("slots"),
) -> None:
    """Positional frames of an engine's releases as snapshots."""
    from kvpoll.protocol.evolution.imports import read_layouts, snapshots_of
    from kvpoll.protocol.evolution.snapshots import to_json

    from .schema_files import CannotCheck

    try:
        found = snapshots_of(read_layouts(_text(layouts)).layouts.values())
        out.mkdir(parents=True, exist_ok=True)
        for (backend, release), snapshot in found.items():
            path = out / f"{backend}-{release}.json"
            path.write_text(to_json(snapshot), encoding="utf-8")
            typer.echo(f"written: {path}")
    except (CannotCheck, ValueError, OSError) as error:
        raise _cannot(error) from None


@schema.command()
def predict(
    layouts: Annotated[Path, typer.Argument(help="A JSON file with `layouts` of positional messages.")],
    sender: Annotated[str | None, typer.Option(help="The layout that writes.", show_default=False)] = None,
    receiver: Annotated[str | None, typer.Option(help="The layout that reads.", show_default=False)] = None,
    variant: Annotated[str, typer.Option(help="full, or plain: state, staging and layer ids are sent empty.")] = "full",
    every: Annotated[
        bool, typer.Option("--all", help="Every pair of one backend and message, both variants, as a JSON list.")
    ] = False,
    format: Annotated[str, typer.Option(help="text or json.")] = "text",
) -> None:
    """What a receiver of one layout makes of frames of another: ok, raises, or silent-misread."""
    import msgspec

    from kvpoll.protocol.evolution.imports import read_layouts
    from kvpoll.protocol.evolution.slots import Prediction, Variant
    from kvpoll.protocol.evolution.slots import predict as run

    from .schema_files import CannotCheck

    def shown(p: Prediction) -> dict[str, object]:
        return {
            "sender": p.sender, "receiver": p.receiver, "variant": p.variant.value, "verdict": p.verdict.value, "wrong": p.wrong,
            "defaulted": p.defaulted, "ignored": p.ignored, "detail": p.detail, "worst": p.worst.value,
        }  # fmt: skip

    try:
        known = read_layouts(_text(layouts)).layouts
        if every:
            pairs = [
                (a, b) for a in known.values() for b in known.values()
                if a.id != b.id and (a.backend, a.message) == (b.backend, b.message)
            ]  # fmt: skip
            everything = [shown(run(a, b, v)) for a, b in pairs for v in Variant]
            typer.echo(msgspec.json.format(msgspec.json.encode(everything), indent=1).decode())
            return
        for option, name in (("--sender", sender), ("--receiver", receiver)):
            if name not in known:
                raise CannotCheck(f"{option}: expected one of {', '.join(known)}, got {name}")
        if variant not in {v.value for v in Variant}:
            raise CannotCheck(f"--variant: expected full or plain, got {variant!r}")
        assert sender is not None
        assert receiver is not None
        found = run(known[sender], known[receiver], Variant(variant))
    except (CannotCheck, ValueError) as error:
        raise _cannot(error) from None
    if format == "json":
        typer.echo(msgspec.json.format(msgspec.json.encode(shown(found)), indent=1).decode())
        return
    typer.echo(f"{found.sender} -> {found.receiver} ({variant}): {found.verdict.value}")
    for what in (*found.wrong, *([found.detail] if found.detail else [])):
        typer.echo(f"  {what}")
    if found.defaulted:
        typer.echo(f"  falls back to a default: {', '.join(found.defaulted)}")
    if found.ignored:
        typer.echo(f"  is not read: {', '.join(found.ignored)}")


def _order(text: str | None) -> Literal["sender-first", "receiver-first"] | None:
    if text is None:
        return None
    if text == "sender-first":
        return "sender-first"
    if text == "receiver-first":
        return "receiver-first"
    raise ValueError(f"--order: expected sender-first or receiver-first, got {text!r}")


def _text(path: Path) -> str:
    from .schema_files import CannotCheck

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CannotCheck(f"{path}: cannot be read: {error}") from None


def _write(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")


def _cannot(error: Exception) -> typer.Exit:
    typer.echo(f"kvpoll schema: could not check: {error}", err=True)
    return typer.Exit(2)
