"""Worlds of a rolling upgrade: the real handshake between two processes, each replaced by later releases at any moment.

Either side is upgraded first, in the middle of anything; a process leaves with a word to its peers, or without one. A release
speaks a window of versions, and may offer what its peer has never heard of. Claimed is ``HandshakeSound``: a link is open only
between two that have a version in common, both take the same one and know of the same capabilities; a link is refused only
between two that have none, and the refusal names it. And every run ends in one of these two ways: nothing stays half-open.

No rooms: what an upgrade does to those is what a crash or a shutdown does, see :mod:`.pair_worlds`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from kvpoll.protocol.core import Core, CoreConfig
from kvpoll.protocol.handshake import Role, Verdict, compare
from kvpoll.protocol.links import Judgement, LinkRecord
from kvpoll.protocol.outputs import FencePeer
from kvpoll.protocol.session import Timing
from kvpoll.spec import LinkEvent, LinkState
from kvpoll.spec.wire import Deadlines, Heads, Layers, Page, Registration, TransportOffer, Versions

from .explorer import Violation
from .named import NamedWorld
from .process import Call, Mail, Process

__all__ = ["UPGRADE_WORLDS", "Release", "UpgradeWorld"]

PREFILL, DECODE = 0, 1
#: How a process leaves: it closes its links and says so, or it is just gone.
WAYS = ("with a word", "without a word")
_ROLES: tuple[Role, Role] = ("prefill", "decode")


class Release(NamedTuple):
    """What one release of a process says of itself: the lowest and highest version that it speaks, what else it can."""

    low: tuple[int, int]
    high: tuple[int, int]
    capabilities: tuple[str, ...] = ()


class State(NamedTuple):
    """Everything that the future depends on."""

    cores: tuple[int, int]  #: by side: the number of its process's state
    releases: tuple[int, int]  #: by side: which release it runs
    net: frozenset[int]
    fences: frozenset[tuple[int, int]]  #: (side, link): asked for
    losses: int


class UpgradeWorld:
    """See the module text. ``releases``: what each side runs, one after the other; ``losses``: messages that may be lost;
    ``ways``: how a process leaves."""

    def __init__(self, releases: tuple[Release, ...], losses: int = 0, ways: tuple[str, ...] = WAYS) -> None:
        self.releases = releases
        self.ways = ways
        self._sound: set[tuple[tuple[int, int], tuple[int, int]]] = set()  #: what was checked
        self._verdicts: dict[tuple[tuple[int, int], int], Verdict] = {}
        self.mail = Mail()
        self._processes: dict[tuple[int, int], Process] = {}
        self.state = State((0, 0), (0, 0), frozenset(), frozenset(), losses)

    # -- what can happen -------------------------------------------------------------------------------------------------
    def actions(self) -> list[Hashable]:
        net, found = sorted(self.state.net), list[Hashable]()
        found += [("deliver", number) for number in net]
        found += [("lose", number) for number in net if self.state.losses]
        found += [("fenced", *each) for each in sorted(self.state.fences)]
        if not self.links(DECODE):
            found.append(("dial",))
        if not net:  # clocks are slow: what is on its way arrives first
            found += [("fire", side, *clock) for side in (PREFILL, DECODE) for clock in self._clocks(side)]
        for side, release in enumerate(self.state.releases):
            if release + 1 < len(self.releases):
                found += [("upgrade", side, way) for way in self.ways]
        return found

    def _clocks(self, side: int) -> list[tuple[int, LinkEvent]]:
        """Clocks that mean something now. A peer that lives is not declared lost, and a refused link is tried anew only when
        one of the two is another release now: it would be refused again."""
        found = []
        for link, record in self.links(side).items():
            if record.state in (LinkState.GREETING, LinkState.OPEN):
                found.append((link, LinkEvent.BEAT))
            if record.state is LinkState.OPEN and record.instance != self.instance(1 - side):
                found.append((link, LinkEvent.LOST))
            if record.state is LinkState.REFUSED and (side == PREFILL or self._verdict(side).ok):
                found.append((link, LinkEvent.HELLO_LATE))
        return found

    def fair(self, action: Hashable) -> bool:
        assert isinstance(action, tuple)
        return action[0] not in ("lose", "upgrade")

    def do(self, action: Hashable) -> None:
        match action:
            case ("deliver", int(number)):
                message = self.mail[number]
                self.state = self.state._replace(net=self.state.net - {number})
                target = message.target
                self._call(PREFILL if not isinstance(target, int) else target % 10, ("hear", number))
            case ("lose", int(number)):
                self.state = self.state._replace(net=self.state.net - {number}, losses=self.state.losses - 1)
            case ("fenced", int(side), int(link)):
                self.state = self.state._replace(fences=self.state.fences - {(side, link)})
                self._call(side, ("peer_fenced", link))
            case ("dial",):
                self._call(DECODE, ("links.to", "prefill"))
            case ("fire", int(side), int(link), LinkEvent() as clock):
                self._call(side, ("fire", link, clock))
            case ("upgrade", int(side), how):
                self._upgrade(side, how == WAYS[0])
            case _:
                raise AssertionError(f"no such action: {action}")
        self._check()

    def _upgrade(self, side: int, says_so: bool) -> None:
        if says_so:
            self._call(side, ("close_links",))
        releases = _put(self.state.releases, side, self.state.releases[side] + 1)
        fences = frozenset(each for each in self.state.fences if each[0] != side)
        self.state = self.state._replace(releases=releases, fences=fences)
        self.state = self.state._replace(cores=_put(self.state.cores, side, self.process(side).start))

    def _call(self, side: int, call: Call) -> None:
        step = self.process(side).step(self.state.cores[side], call)
        if step.never:
            raise Violation("TotalHandlers", f"a row that is called impossible fired: {step.never}")
        fences = {(side, output.link) for output in step.outputs if isinstance(output, FencePeer)}
        self.state = self.state._replace(
            cores=_put(self.state.cores, side, step.state), net=self.state.net | set(step.sends),
            fences=self.state.fences | fences,
        )  # fmt: skip

    # -- what it is now --------------------------------------------------------------------------------------------------
    def snapshot(self) -> Hashable:
        return self.state

    def restore(self, snapshot: Hashable) -> None:
        assert isinstance(snapshot, State)
        self.state = snapshot

    def process(self, side: int) -> Process:
        """The process that a side runs now; it is made when its release is first run."""
        key = side, self.state.releases[side]
        if key not in self._processes:
            self._processes[key] = _Linked(self._core(*key), self.mail, self.instance(side) * 1000)
        return self._processes[key]

    def _core(self, side: int, number: int) -> Callable[[Callable[[], int]], Core]:
        def judge(ours: Registration, theirs: Registration, initiator: bool) -> Judgement:
            verdict = compare(ours, theirs, role=_ROLES[side])
            fields, text = verdict.refusal()
            return Judgement(fields, verdict.transport or "", text)

        instance, registration = self.instance(side), _registration(side, self.releases[number])
        config = CoreConfig(instance=instance, engine=instance, timing=Timing(0, 0, 0, 0, 0, 0, 0, 0))
        return lambda ids: Core(config, ids, lambda link: registration, judge)

    def instance(self, side: int) -> int:
        """Of the process that a side runs now: its last digit is the side."""
        return 10 * (1 + self.state.releases[side]) + side

    def links(self, side: int) -> dict[int, LinkRecord]:
        """Every link that a side knows."""
        process = self.process(side)
        assert isinstance(process, _Linked)
        return process.tables[self.state.cores[side]]

    def _verdict(self, side: int) -> Verdict:
        """What the two that run now make of each other, in the eyes of this one."""
        key = self.state.releases, side
        if key not in self._verdicts:
            both = [_registration(each, self.releases[release]) for each, release in enumerate(self.state.releases)]
            self._verdicts[key] = compare(both[side], both[1 - side], role=_ROLES[side])
        return self._verdicts[key]

    # -- what must hold --------------------------------------------------------------------------------------------------
    def _check(self) -> None:
        key = self.state.cores, self.state.releases  # nothing else matters, and handshakes take time
        if key in self._sound:
            return
        self._sound.add(key)
        for side in (PREFILL, DECODE):
            ours = _registration(side, self.releases[self.state.releases[side]])
            for record in self.links(side).values():
                self._check_link(side, ours, record)
        for link, record in self.links(DECODE).items():
            other = self.links(PREFILL).get(link)
            if other is not None and record.state is other.state is LinkState.OPEN:
                self._check_pair(link, record, other)

    def _check_link(self, side: int, ours: Registration, record: LinkRecord) -> None:
        if record.state is LinkState.OPEN:
            assert record.registration is not None
            if not compare(ours, record.registration, role=_ROLES[side]).ok:
                raise Violation("HandshakeSound", f"{record.link} is open at {_ROLES[side]}, and they do not fit")
        if record.state is LinkState.REFUSED and record.fields != ("version",):
            raise Violation("HandshakeSound", f"{record.link} was refused for its versions, and names {record.fields}")

    def _check_pair(self, link: int, decode: LinkRecord, prefill: LinkRecord) -> None:
        """Each holds what the other said, and both draw the same from it."""
        assert decode.registration is not None
        assert prefill.registration is not None
        one = compare(decode.registration, prefill.registration, role="prefill")
        other = compare(prefill.registration, decode.registration, role="decode")
        if (one.version, one.capabilities) != (other.version, other.capabilities) or one.version is None:
            raise Violation("HandshakeSound", f"{link} is open: one end speaks {one.version}, one {other.version}")

    # -- ends ------------------------------------------------------------------------------------------------------------
    def ended(self) -> bool:
        return not self.state.net and not self.state.fences and self.outcome() != "half-open"

    def lacks(self) -> list[Violation]:
        return [Violation("HandshakeSound", "one end has a link that the other has not, and never learns of it")]

    def outcome(self) -> str:
        here, there = (list(self.links(side).values()) for side in (DECODE, PREFILL))
        fits = self._verdict(DECODE)
        if len(here) == 1 and here[0].state is LinkState.REFUSED and not fits.ok:
            alone = all(record.state is LinkState.REFUSED for record in there)
            return f"refused: {', '.join(here[0].fields)}" if alone else "half-open"
        both = [*here, *there]
        same = len(here) == len(there) == 1 and here[0].link == there[0].link
        known = [record.instance for record in both] == [self.instance(PREFILL), self.instance(DECODE)]
        if same and known and all(record.state is LinkState.OPEN for record in both) and fits.version is not None:
            version = ".".join(map(str, fits.version))
            return f"link of {version}{' with ' * bool(fits.capabilities)}{', '.join(fits.capabilities)}"
        return "half-open"


class _Linked(Process):
    """A process that remembers its links in full: what the registrations said is what this world is about."""

    def __init__(self, make: Callable[[Callable[[], int]], Core], mail: Mail, first_id: int) -> None:
        self.tables: list[dict[int, LinkRecord]] = []
        super().__init__(make, mail, first_id)

    def _number(self) -> int:
        number = super()._number()
        if number == len(self.tables):
            self.tables.append(dict(self.core.links.table))
        return number


class _Nothing(dict[str, "str | int"]):
    """A descriptor without entries that can be part of a state."""

    def __hash__(self) -> int:  # type: ignore[override]
        return 0


def _put(pair: tuple[int, int], side: int, value: int) -> tuple[int, int]:
    return (value, pair[1]) if side == PREFILL else (pair[0], value)


def _registration(side: int, release: Release) -> Registration:
    """Two of these fit, but for what their releases say."""
    return Registration(
        versions=Versions(release.low, release.high), capabilities=release.capabilities, role=_ROLES[side], engine=side,
        model="m", weights="", layers=Layers(1, 0, 1), page=Page(1, 1), kv_dtype="uint8", layout="l", heads=Heads(1, 1),
        transports=(TransportOffer("t", _Nothing()),), deadlines=Deadlines(100, 100, 900 - 400 * side, 1, 100, 100),
    )  # fmt: skip


FIRST, NEXT = Release((1, 0), (1, 0)), Release((1, 0), (1, 1), ("progress",))
_OPEN = {"link of 1.0", "link of 1.1 with progress"}

UPGRADE_WORLDS: tuple[NamedWorld, ...] = (
    NamedWorld(
        "upgrade", "Each side goes from 1.0 to 1.1, which speaks 1.0 too, in either order: there is always a link.",
        lambda: UpgradeWorld((FIRST, NEXT), losses=1), frozenset(_OPEN), "losses=1",
    ),
    NamedWorld(
        "upgrade-closed-window", "The next release does not speak 1.0 any more: while only one side has it, the pair is refused.",
        lambda: UpgradeWorld((FIRST, NEXT._replace(low=(1, 1))), losses=1), frozenset({*_OPEN, "refused: version"}), "losses=1",
    ),
    NamedWorld(
        "upgrade-in-two-steps", "From 1.0 over 1.0 to 1.1 to 1.1 to 2.0: refused is only who skips the step between.",
        lambda: UpgradeWorld((FIRST, NEXT, Release((1, 1), (2, 0), ("progress",))), losses=1, ways=WAYS[1:]),
        frozenset({*_OPEN, "link of 2.0 with progress", "refused: version"}), "losses=1",
    ),
)  # fmt: skip
