"""``docs/schema-rules.md``: every rule, what it means, whom it hurts, what to do, and what it was tried on."""

from __future__ import annotations

from kvpoll.protocol.render.markdown import grid

from .rules import Fixture, Rule, rules

__all__ = ["rules_page"]

_INTRO = """\
What `kvpoll schema check` looks for. An error is breaking: the exit status is 1. A warning is breaking with `--strict` only.
*new-reads-old* means that a reader of the new schema meets a writer of the old one, *old-reads-new* the other way round.
`kvpoll schema explain RULE` says the same at the terminal. Every sentence under *found* and *not found* is a pair of schemas
that the tests compare; it stands in the file of its rule, in `spec/rules/`.

"""


def rules_page() -> str:
    """The page."""
    head = ("rule", "severity", "hurts", "what happened")
    rows = [(f"[`{r.id}`](#{r.id.lower()})", r.severity, _hurts(r), r.title) for r in rules().values()]
    made_by = "<!-- Made by `kvpoll docs --write` from spec/rules/. Do not edit. -->"
    return f"{made_by}\n\n# Rules of schema evolution\n\n{_INTRO}{grid(head, rows)}\n" + "".join(
        map(_section, rules().values())
    )


def _section(rule: Rule) -> str:
    found, not_found = _sentences("Found", rule.positive), _sentences("Not found", rule.negative)
    text = f"\n## {rule.id}\n\n{rule.title} ({rule.severity}; {_hurts(rule)}). {rule.means}\n\nFix: {rule.fix}\n"
    return text + ("\n" + "\n".join([*found, *not_found]) + "\n" if found or not_found else "")


def _hurts(rule: Rule) -> str:
    return ", ".join(rule.directions) or "nobody"


def _sentences(how: str, fixtures: tuple[Fixture, ...]) -> list[str]:
    return [f"* {how} when {fixture.says}." for fixture in fixtures]
