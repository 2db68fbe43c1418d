"""Any plan against a count of every token of every layer (CompleteOrNotSuccess, PositionsAbsolute).

The cells of a request, layers by tokens, are cut up at random and dealt to sender ranks; then at most one thing is made
wrong. The parts arrive in any order, some twice, mixed with the closing messages. The receiver may call the data ready
exactly when every cell is there once and every part is what it says, and must refuse what can never become that.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from msgspec.structs import replace

from kvpoll.protocol.core import Core, CoreConfig
from kvpoll.protocol.coverage import pages_for
from kvpoll.protocol.links import Judgement
from kvpoll.protocol.outputs import Ready
from kvpoll.spec.wire import (
    VERSION,
    Close,
    Deadlines,
    Fingerprint,
    Heads,
    Layers,
    Message,
    Page,
    Part,
    PartDone,
    Registration,
    Versions,
    Welcome,
)  # fmt: skip

__all__ = ["MISTAKES", "PlanCase", "cases", "expected", "verdict"]

_PAGE_NBYTES = 2
_INSTANCE, _ENGINE, _ROOM, _PEER = 1, 2, 3, 100
#: What can be made wrong with a plan.
MISTAKES = ("", "drop", "twice", "shift", "layers", "bytes", "dtype", "total more", "total less", "other range")


@dataclass(frozen=True, slots=True)
class PlanCase:
    """``steps``: in order of arrival, (rank, parts) or (rank, total)."""

    request: Fingerprint
    page_size: int
    layers: int
    ranks: int
    plans: tuple[tuple[Part, ...], ...]  #: by rank, as its sender made it
    totals: tuple[int, ...]
    steps: tuple[tuple[int, tuple[Part, ...] | int], ...]


@st.composite
def cases(draw: st.DrawFn, mistake: str) -> PlanCase:
    """A plan of any shape, with one mistake ("": none)."""
    size, layers, ranks = draw(st.integers(1, 6)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    tokens = draw(st.integers(1, 36))
    prefix = draw(st.one_of(st.just(0), st.integers(0, tokens if mistake == "" else tokens - 1)))
    request = Fingerprint(tokens=tokens, prefix=prefix, digest=b"drawn")
    inner = [at for at in range(size, tokens, size) if at > prefix]
    plans: list[list[Part]] = [[] for _ in range(ranks)]
    layer_cuts = [0, *sorted(draw(st.sets(st.integers(1, layers - 1)) if layers > 1 else st.just(set()))), layers]
    for low, high in itertools.pairwise(layer_cuts):
        cuts = [prefix, *sorted(draw(st.sets(st.sampled_from(inner), max_size=5)) if inner else ()), tokens]
        for start, stop in itertools.pairwise(cuts):
            if start < stop:
                plan = plans[draw(st.integers(0, ranks - 1))]
                plan.append(_part(len(plan), start, stop, low, high, size))
    if mistake and not mistake.startswith("total"):
        _spoil(draw, mistake, plans, size, layers, prefix)
    totals = [len(plan) for plan in plans]
    if mistake.startswith("total"):
        rank = draw(st.sampled_from([r for r in range(ranks) if totals[r]]))
        totals[rank] += 1 if mistake == "total more" else -1
    steps: list[tuple[int, tuple[Part, ...] | int]] = []
    for rank, plan in enumerate(plans):
        steps += [(rank, (part,)) for part in plan]
        steps.append((rank, totals[rank]))
    again = draw(st.lists(st.sampled_from(steps), max_size=4))
    order = draw(st.permutations([*steps, *again]))
    return PlanCase(request, size, layers, ranks, tuple(map(tuple, plans)), tuple(totals), tuple(order))


def _part(no: int, start: int, stop: int, low: int, high: int, size: int) -> Part:
    shape = (high - low, pages_for(start, stop, size), _PAGE_NBYTES)
    return Part(no=no, start=start, stop=stop, layer_start=low, layer_stop=high, shape=shape)


def _spoil(
    draw: st.DrawFn, mistake: str, plans: Sequence[list[Part]], size: int, layers: int, prefix: int
) -> None:  # fmt: skip
    """Make one part of one plan wrong."""
    rank = draw(st.sampled_from([r for r, plan in enumerate(plans) if plan]))
    plan = plans[rank]
    at = draw(st.integers(0, len(plan) - 1))
    part = plan[at]
    match mistake:
        case "drop":
            del plan[at]
            plan[at:] = [replace(p, no=no) for no, p in enumerate(plan[at:], at)]
        case "twice":
            other = plans[draw(st.integers(0, len(plans) - 1))]
            other.append(replace(part, no=len(other)))
        case "shift":
            by = draw(st.sampled_from([-size, size, 1, -1]))
            plan[at] = replace(part, start=max(0, part.start + by), stop=max(1, part.stop + by))
        case "layers":
            plan[at] = replace(part, layer_stop=part.layer_stop + draw(st.integers(1, layers)))
        case "bytes":
            rows, pages, nbytes = part.shape
            plan[at] = replace(part, shape=(rows, pages + draw(st.sampled_from([-1, 1])), nbytes))
        case "dtype":
            plan[at] = replace(part, dtype=draw(st.sampled_from(["uint16", "float32", ""])))
        case _:  # the same number a second time, for another range: appended below as a part of its own
            plan.append(replace(part, stop=part.stop + 1))


def expected(case: PlanCase) -> str:
    """By counting: "ready", "refused", or "waits" for a part that was announced and never comes."""
    config = case.request
    cells: Counter[tuple[int, int]] = Counter()
    for rank, plan in enumerate(case.plans):
        if len({part.no for part in plan}) != len(plan) or any(part.no >= case.totals[rank] for part in plan):
            return "refused"
        for part in plan:
            tokens = range(part.start, part.stop)
            low, high = part.layer_start, part.layer_stop
            aligned = (part.start in (config.prefix,) or part.start % case.page_size == 0) and (
                part.stop == config.tokens or part.stop % case.page_size == 0
            )
            inside = config.prefix <= part.start < part.stop <= config.tokens and 0 <= low < high <= case.layers
            pages = {token // case.page_size for token in tokens}
            nbytes = part.shape[0] * part.shape[1] * part.shape[2]
            if not (aligned and inside) or part.dtype != "uint8" or nbytes != (high - low) * len(pages) * _PAGE_NBYTES:
                return "refused"
            cells.update(itertools.product(range(low, high), tokens))
    if any(count > 1 for count in cells.values()):
        return "refused"
    if any(len(plan) < total for plan, total in zip(case.plans, case.totals, strict=True)):
        return "waits"
    whole = len(cells) == case.layers * (config.tokens - config.prefix)
    return "ready" if whole else "refused"


def verdict(case: PlanCase) -> str:
    """What a real receiver makes of it."""
    ids = itertools.count(10)
    core = Core(
        CoreConfig(
            instance=_INSTANCE, engine=_ENGINE, page_size=case.page_size, page_nbytes=_PAGE_NBYTES, layers=(0, case.layers),
            push=(("push", True),),
        ),
        lambda: next(ids), lambda link: _registration(), lambda ours, theirs, initiator: Judgement((), "push"),
    )  # fmt: skip
    key = core.create_receiver(_ROOM, case.request, [(f"p{rank}", rank) for rank in range(case.ranks)])
    links = list(core.links.table)
    for rank, link in enumerate(links):
        core.receive(Welcome(registration=_registration(), link=link, source=_PEER + rank, target=_INSTANCE))
    core.on_receiver(key, lambda session: session.send_metadata())
    core.take()
    ready = 0
    for rank, what in case.steps:
        core.receive(_message(links[rank], rank, what))
        ready += sum(isinstance(out, Ready) for out in core.take())
    session = core.receiver(key)
    assert session is not None
    if session.failure is not None:
        assert session.failure.cause.name == "PLAN_REFUSED", session.failure
        assert not ready, "it was called ready, and then refused"
        return "refused"
    assert ready <= 1, "it was called ready twice"
    return "ready" if ready else "waits"


def _message(link: int, rank: int, what: tuple[Part, ...] | int) -> Message:
    if isinstance(what, int):
        return Close(
            total=what, link=link, source=_PEER + rank, target=_INSTANCE, source_rank=rank, room=_ROOM, engine=_ENGINE, gen=1
        )  # fmt: skip
    return PartDone(
        parts=what, link=link, source=_PEER + rank, target=_INSTANCE, source_rank=rank, room=_ROOM, engine=_ENGINE, gen=1
    )  # fmt: skip


def _registration() -> Registration:
    return Registration(
        versions=Versions(VERSION, VERSION), role="prefill", engine=9, model="", weights="", layers=Layers(1, 0, 1),
        page=Page(1, 1), kv_dtype="uint8", layout="", heads=Heads(1, 1), transports=(), deadlines=Deadlines(1, 1, 1, 1, 1, 1),
    )  # fmt: skip
