"""One engine of the reference: a group of ranks, each a process of its own, behind one poll().

Every call goes to every rank. The group's state is the protocol's own decision about the votes of its ranks; when one rank has
failed the group has, and its other ranks are given up. Memory is free when every rank that lives says so. A rank that is gone,
or silent for a while, has failed in all rooms that it did not finish.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from kvpoll.protocol.errors import Failure, LocalProtocolError
from kvpoll.protocol.group import Decision, Vote, decide
from kvpoll.protocol.records import LeaseKind
from kvpoll.spec import Cause, KVPoll

from ..plug import DECODE, PREFILL, Side, other
from .process import Handle, Process
from .topology import Address

if TYPE_CHECKING:
    from .world import World

__all__ = ["Group", "GroupHandle"]

#: ms after which everybody knows that a process is gone.
GONE = 5
_OVER = (KVPoll.Failed, KVPoll.Success)
_BEGUN = Decision(KVPoll.Bootstrapping, None, False)


@dataclass(slots=True, eq=False)
class GroupHandle:
    """What the engine holds of one room at one side."""

    group: Group
    room: int
    total: int  #: pages of the request, as this side sees it
    members: dict[int, Handle] = field(default_factory=dict)  #: by rank
    votes: dict[int, Vote | None] = field(default_factory=dict)  #: by rank
    decision: Decision = _BEGUN
    ready: bool = False  #: init() was called
    sent: int = 0  #: pages
    closed: bool = False  #: the last chunk was sent
    pages: list[int] = field(default_factory=list)  #: decode: where the data goes
    given_up: bool = False  #: the ranks were told that another one has failed

    @property
    def state(self) -> KVPoll:
        return self.decision.state

    @property
    def failure(self) -> Failure | None:
        return self.decision.failure

    @property
    def alive(self) -> bool:
        """Some rank that knew of it is still there."""
        return any(member.process.alive for member in self.members.values())

    @property
    def released(self) -> bool:
        """Every rank that lives has given the engine's memory back."""
        kind = LeaseKind.SOURCE if self.group.side == PREFILL else LeaseKind.PAGES
        waits = any(room is self for calls in self.group.deaf.values() for room, _ in calls)
        living = [member for member in self.members.values() if member.process.alive]
        return not waits and not any(lent is kind for member in living for lent, _ in member.lent)


class Group:
    """See the module text."""

    def __init__(self, world: World, side: Side) -> None:
        self.world, self.side = world, side
        self.handles: list[GroupHandle] = []
        self.deaf: dict[int, deque[tuple[GroupHandle, Callable[[], None]]]] = {}  #: by rank: calls it hears of later
        self.mute: set[int] = set()  #: ranks of which the others hear nothing
        self.lost: set[int] = set()  #: ranks that are known to be gone, or silent for too long
        self._of: dict[Handle, GroupHandle] = {}
        self._tokens: dict[int, int] = {}  #: decode: which token of its request a page holds
        self._gen = 0
        self._engine = 0
        self.start()

    @property
    def size(self) -> int:
        return self.world.topology.count(self.side)

    @property
    def ranks(self) -> dict[int, Process]:
        """Those that live."""
        places = ((rank, self.world.places.get(Address(self.side, rank))) for rank in range(self.size))
        return {rank: process for rank, process in places if process is not None}

    def start(self) -> None:
        """Start every rank that is not there. An engine of which nothing is left is another one then."""
        living = self.ranks
        if not living:
            self._engine, self._gen = next(self.world.ids), 0
        for rank in range(self.size):
            if rank not in living:
                process = Process(self.world, Address(self.side, rank), self._engine, self._gen)
                process.changed = self._heard
                self.lost.discard(rank)

    # -- calls ---------------------------------------------------------------------------------------------------------
    def create(self, room: int, total: int, digest: bytes) -> GroupHandle:
        """Raises :class:`LocalProtocolError`: the room is live here."""
        handle = GroupHandle(self, room, total, votes=dict.fromkeys(range(self.size)))
        gen = None if self.side == PREFILL else self._gen + 1
        try:
            for rank in self.ranks:
                self._tell(rank, handle, partial(self._create, rank, handle, digest, gen))
        except LocalProtocolError:
            self.abort(handle)
            raise
        finally:
            self._gen += 1 if handle.members and gen is not None else 0
        self.handles.append(handle)
        for rank in sorted(self.lost):
            self._miss(handle, rank)
        if self.deaf:
            self.world.after(self.world.setting.timing.total, partial(self._unheard, handle), late=True)
        return handle

    def _create(self, rank: int, handle: GroupHandle, digest: bytes, gen: int | None) -> None:
        process = self.ranks.get(rank)
        if process is None:
            return
        member = process.create(handle.room, handle.total, digest, gen)
        handle.members[rank] = member
        self._of[member] = handle
        self._heard(member)
        if handle.given_up:
            process.abort(member, "another rank failed")

    def metadata(self, handle: GroupHandle, pages: Sequence[int]) -> None:
        handle.pages = list(pages)
        self._tokens.update((page, token) for token, page in enumerate(pages))
        self._each(handle, lambda process, member: process.metadata(member, handle.pages))

    def send(self, handle: GroupHandle, pages: Sequence[int], last: bool) -> None:
        self._each(handle, lambda process, member: process.send(member, pages, last))
        handle.sent, handle.closed = handle.sent + len(pages), last

    def abort(self, handle: GroupHandle) -> None:
        self._each(handle, lambda process, member: process.abort(member))
        if self.deaf and handle.state not in _OVER:  # who has not heard of it cannot keep it open
            handle.decision = Decision(KVPoll.Failed, Failure(Cause.ABORTED, (("reason", "given up"),)), False)

    def _each(self, handle: GroupHandle, call: Callable[[Process, Handle], None]) -> None:
        for rank, process in self.ranks.items():
            self._tell(rank, handle, partial(self._at, process, rank, handle, call))

    def _at(self, process: Process, rank: int, handle: GroupHandle, call: Callable[[Process, Handle], None]) -> None:
        member = handle.members.get(rank)
        if member is not None and member.process is process and process.alive:
            call(process, member)

    def _tell(self, rank: int, handle: GroupHandle, call: Callable[[], None]) -> None:
        if rank in self.deaf:
            self.deaf[rank].append((handle, call))
        else:
            call()

    # -- votes ---------------------------------------------------------------------------------------------------------
    def _heard(self, member: Handle) -> None:
        handle, rank = self._of.get(member), member.process.address.rank
        if handle is not None and rank not in self.mute:
            self._vote(handle, rank, Vote(member.state, member.failure))

    def _vote(self, handle: GroupHandle, rank: int, vote: Vote) -> None:
        handle.votes[rank] = vote
        if self.size == 1 or handle.state not in _OVER:  # one rank alone is shown as it is, whatever it does
            handle.decision = decide(handle.votes)
        if handle.state is KVPoll.Failed and self.size > 1 and not handle.given_up:
            handle.given_up = True
            self.world.after(self.world.setting.latency, partial(self._give_up, handle))

    def _give_up(self, handle: GroupHandle) -> None:
        self._each(handle, lambda process, member: process.abort(member, "another rank failed"))

    def _miss(self, handle: GroupHandle, rank: int) -> None:
        """This rank has failed, unless it had finished."""
        vote = handle.votes[rank]
        if vote is None or vote.state not in _OVER:
            self._vote(handle, rank, Vote(KVPoll.Failed, Failure(Cause.PEER_LOST, (("rank", rank),))))

    def _unheard(self, handle: GroupHandle) -> None:
        """Nobody waits for ever for a rank that never heard of a room: no clock of a rank ends that."""
        for rank in [rank for rank, vote in handle.votes.items() if vote is None]:
            self._vote(handle, rank, Vote(KVPoll.Failed, Failure(Cause.TOTAL_DEADLINE, (("rank", rank),))))

    def _lose(self, rank: int, process: Process) -> None:
        """Nothing was heard of a rank for too long. Another one may be in its place already: that has none of its rooms."""
        there = self.ranks.get(rank)
        if there is process and rank not in self.mute:
            return
        if there is None or there is process:
            self.lost.add(rank)
        for handle in self.handles:
            member = handle.members.get(rank)
            if rank in self.lost or (member is not None and member.process is process):
                self._miss(handle, rank)

    # -- faults --------------------------------------------------------------------------------------------------------
    def kill(self, ranks: Sequence[int]) -> None:
        """These are gone without a word. Connections break, and everybody who had one sees that."""
        for rank in ranks:
            process = self.ranks.get(rank)
            if process is None:
                continue
            process.crash()
            for peer in [place for at, place in self.world.places.items() if at.side == other(self.side)]:
                for link in list(peer.core.links.table):
                    if self.world.far(peer.address, link) == process.address:
                        self.world.after(GONE, partial(self._break, peer, link))
            self.world.after(GONE, partial(self._lose, rank, process))

    def _break(self, peer: Process, link: int) -> None:
        peer.run(lambda: peer.core.disconnected(link))

    def late(self, rank: int) -> None:
        """This rank hears of every call that follows only when all is well again."""
        self.deaf.setdefault(rank, deque())

    def silent(self, rank: int) -> None:
        """This rank neither sends nor hears."""
        self.late(rank)
        self.mute.add(rank)
        self.world.silent.add(Address(self.side, rank))
        process = self.ranks.get(rank)
        if process is not None:
            self.world.after(self.world.setting.timing.lost, partial(self._lose, rank, process))

    def heal(self) -> None:
        """Every rank is there, and hears; what it missed it hears of now, in order."""
        self.start()
        mute, deaf = self.mute, self.deaf
        self.mute, self.deaf = set(), {}
        self.lost -= mute
        for handle in self.handles:
            for rank in mute & handle.members.keys():
                self._heard(handle.members[rank])
        for rank, calls in deaf.items():
            for handle, call in calls:
                try:
                    call()
                except LocalProtocolError as error:
                    if handle.state not in _OVER:
                        self._vote(handle, rank, Vote(KVPoll.Failed, Failure(error.cause)))

    # -- memory --------------------------------------------------------------------------------------------------------
    def write(self, pages: Sequence[int], data: bytes) -> None:
        """Write from the start of these pages, wherever they are held."""
        for process in self.ranks.values():
            process.write(pages, data)

    def read(self, pages: Sequence[int]) -> bytes:
        """The pages, put together. Where two ranks hold the same byte and do not agree, it is one that neither holds."""
        ranks = list(self.ranks.values())
        if len(ranks) == self.size == 1:
            return ranks[0].read(pages)
        return b"".join(self._page(page, ranks) for page in pages)

    def _page(self, page: int, ranks: Sequence[Process]) -> bytes:
        size, token = self.world.setting.page_bytes, self._tokens.get(page)
        held: list[set[int]] = [set() for _ in range(size)]
        for process in ranks:
            if self.side == DECODE and token is not None and not process.owner.held(token, token + 1):
                continue
            whole = process.read([page])
            for at in process.offsets:
                held[at].add(whole[at])
        return bytes(
            each.pop() if len(each) == 1 else min(set(range(256)) - each) if each else 0 for each in held
        )  # fmt: skip
