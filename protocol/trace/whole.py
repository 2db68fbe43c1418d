"""What only the traces of several processes together can show. Nothing here is said of what was not traced.

A room's two ends agree on its end as far as the protocol promises: a sender succeeds on the word of its receivers, which
never fail afterwards; a receiver may succeed and its sender not know. And what was received was sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .follow import Instance, Key, Machine, Seen
from .verdict import Bad

__all__ = ["check_whole"]


def check_whole(instances: Mapping[str, Instance]) -> list[Bad]:
    """The bad lines, in the order of files and lines."""
    found = [*_outcomes(instances), *_unsent(instances)]
    return sorted(found, key=lambda bad: (bad.file, bad.line))


def _outcomes(instances: Mapping[str, Instance]) -> Iterator[Bad]:
    engines: dict[str, list[Instance]] = {}
    for instance in instances.values():
        if instance.engine:
            engines.setdefault(instance.engine, []).append(instance)
    for instance in instances.values():
        for sender in instance.machines.get("sender", {}).values():
            if sender.outcome == "Success" and sender.end is not None and sender.gen is not None:
                for other in engines.get(sender.engine, ()):
                    if not instance.links & other.links:
                        continue  # a rank of the same attempt that this one never met: it has senders of its own
                    says = _against(sender, other)
                    if says:
                        yield Bad(file=sender.end[1], line=sender.end[2], what="outcome", says=says, who=sender.who)


def _against(sender: Machine, other: Instance) -> str:
    """What the receiver's trace has against the success of a sender."""
    assert sender.gen is not None
    assert sender.end is not None
    receiver = other.attempts.get((sender.engine, sender.gen))
    if receiver is None:
        return f"it succeeded, but {other.who} has no attempt {sender.gen}" if other.whole else ""
    if receiver.outcome == "Success":
        if receiver.end is None or not other.clock or other.clock != sender.instance.clock:
            return ""
        t, file, line = receiver.end
        late = t - sender.end[0]
        return f"it succeeded {late} ms before its receiver did ({file}:{line})" if late > 0 else ""
    where = f"{receiver.file}:{receiver.line}"
    if receiver.outcome == "Failed":
        return f"it succeeded, but its receiver failed ({receiver.who}, {where})"
    if other.whole:
        return f"it succeeded, but its receiver never did ({receiver.who}, {receiver.place.text()}, {where})"
    return ""


def _unsent(instances: Mapping[str, Instance]) -> Iterator[Bad]:
    by_link: dict[str, list[Instance]] = {}
    for instance in instances.values():
        for link in instance.links:
            by_link.setdefault(link, []).append(instance)
    for instance in instances.values():
        # Nothing can be said of a link whose other ends are not there from their heads to their ends.
        ends = {
            link: others
            for link in instance.links
            if (others := [other for other in by_link[link] if other is not instance])
            and all(other.whole for other in others)
        }
        for key, seen in instance.heard.items():
            others = ends.get(key[0], [])
            if len(others) == 1:  # nearly always: be quick
                sent = others[0].sent.get(key)
                if sent is not None and sent[0] <= seen[0]:
                    continue
            if others and (says := _never_sent(instance, key, seen, others)):
                yield Bad(file=seen[1], line=seen[2], what="unsent", says=says, who=instance.who)


def _never_sent(instance: Instance, key: Key, seen: Seen, others: list[Instance]) -> str:
    """Fewer sendings than arrivals are no fault: the protocol lets a network copy."""
    sent = [other.sent[key] for other in others if key in other.sent]
    if sent and (min(sent)[0] <= seen[0] or any(other.clock != instance.clock or not other.clock for other in others)):
        return ""
    _, kind, state, engine, gen = key
    name = f"{kind}{f' ({state})' if state else ''}{f' of attempt {gen} of engine {engine}' if gen is not None else ''}"
    return f"{name} was received {min(sent)[0] - seen[0]} ms before it was sent" if sent else f"{name} was never sent"
