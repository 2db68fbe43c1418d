"""The sender's side of a declared pair world: what its session does around the sender's table. See :mod:`.shape`."""

from __future__ import annotations

from collections.abc import Iterator

from kvpoll.spec import LEASE, SENDER, Effect, KVPoll, LeaseEvent, LeaseState, SenderEvent
from kvpoll.spec.sender_table import plan

from .shape import (
    TO_RECEIVER,
    TO_SENDER,
    Op,
    Shape,
    Side,
    back,
    drain_of,
    guarded,
    idle,
    out,
    over,
    tell_lease,
    touched,
)  # fmt: skip
from .terms import NO, YES, Arg, Empty, Has, In, Less, Num, Sum, Term, Var, either, every, pick
from .world import Body, Call, Clear, Feed, Machine, Must, Put, Receive, Statement, Step, When

__all__ = ["passes", "sender_side"]

ME, ACCESS = "sender", "s_access"
E, L, X = SenderEvent, LeaseEvent, Effect
B, W, T, S, F = (
    KVPoll.Bootstrapping, KVPoll.WaitingForInput, KVPoll.Transferring, KVPoll.Success, KVPoll.Failed,
)  # fmt: skip

peer = Var("s_peer", why="an attempt is paired with this leg")
tomb = Var("s_tomb", why="the attempt was over before it was paired: nothing pairs it any more")
meta = Var("s_meta", why="the receiver said where data goes")
failed = Var("s_failed", why="the receiver said that it failed")
concluded = Var("s_concluded", why="the receiver said that it committed")
acked = Var("s_acked", why="the receiver answered our ABORT")
drained = Var("s_drained", why="nothing of the receiver can touch our memory")
total = Var("s_total", why="the receiver holds our CLOSE")
lost = Var("s_lost", why="the receiver's process was declared lost")
gone = Var("s_gone", why="... and is fenced")
passed = Var("s_passed", why="the receiver's low water went past the attempt")
silent = Var("s_silence", why="the silence deadline is armed")


def sender_side(shape: Shape) -> Side:
    """Machines, counters, procedures, effects, and steps of the sender."""
    return _Sender(shape).side()


def passes(shape: Shape, settled: Term) -> tuple[Step, ...]:
    """The low water of the receiver goes past the attempt, once its side of it is ``settled``."""
    if not shape.low_water:
        return ()
    body: Body = (Put(passed, YES), Put(drained, YES), When(~concluded, (Feed(ME, E.PASSED),)), Call("s_drain"))
    alive = ~shape.dead("s") & ~shape.dead("r")
    return (Step("the low water goes past the attempt", every((alive, peer, ~passed, settled)), body, True),)


class _Sender:
    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.parts = range(shape.parts)
        self.sent = Var("s_sent", shape.parts, why="parts that the engine handed over")
        self.seen = Var("s_seen", shape.parts, why="parts that the receiver holds, as far as it said")
        self.offered = [Var(f"s_offered{part}", why="this part can be pulled") for part in self.parts]
        self.copies = [f"copy{part}" for part in self.parts]
        self.alive = ~shape.dead("s")
        self.gone = either((gone if shape.crashes else NO, passed if shape.low_water else NO))  # it cannot be reached
        self.open = Has(ME, plan, "open")

    def side(self) -> Side:
        variables = [peer, tomb, meta, failed, concluded, acked, drained, total, self.sent, self.seen]
        variables += [] if self.shape.push else self.offered
        variables += [lost, gone, Var("s_dead", why="the sender's process has crashed")] if self.shape.crashes else []
        variables += [passed] if self.shape.low_water else []
        variables += [silent] if self.shape.silence else []
        leases = (*(Machine(copy, LEASE) for copy in self.copies), Machine(ACCESS, LEASE))
        heard = ~peer | self.gone if self.shape.low_water else YES
        settled = every((over(ME), *(~out(copy) for copy in self.copies), ~peer | back(ACCESS), ~self.pending(), heard))
        return Side(
            machines=(Machine(ME, SENDER), *leases),
            variables=tuple(variables),
            procedures=self.procedures(),
            effects=self.effects(),
            receives=tuple(self.receives()),
            steps=tuple(self.steps()),
            settled=~self.alive | settled,
        )

    # -- what it knows -------------------------------------------------------------------------------------------------
    def started(self, part: int) -> Term:
        return ~self.shape.op(part).is_(Op.NONE.value) if self.shape.push else self.offered[part]

    def told(self, part: int) -> Term:
        """The receiver was told of this part: done at it, or offered to it."""
        return self.shape.op(part).is_(Op.DONE.value) if self.shape.push else self.offered[part]

    def all_started(self) -> Term:
        return every(Less(self.sent, Num(part + 1)) | self.started(part) for part in self.parts)

    def closed(self) -> Term:
        return ~self.open & In(ME, (W, T))

    def pending(self) -> Term:
        """Something that was said has had no answer: the re-send clock runs."""
        news = Less(self.seen, Sum((Num(0), *(pick(self.told(p), YES, NO) for p in self.parts)))) | (
            self.closed() & ~total
        )
        live = meta & news & ~In(ME, (S,))
        return peer & ~self.gone & pick(In(ME, (F,)), ~acked, live)

    # -- procedures ----------------------------------------------------------------------------------------------------
    def procedures(self) -> dict[str, Body]:
        reach = peer & ~self.gone
        found: dict[str, Body] = {
            "s_answer_abort": (
                When(
                    failed & ~(gone if self.shape.crashes else NO) & over(ME),
                    (
                        When(back(ACCESS), (self.ack(0),)),
                        When(In(ACCESS, (LeaseState.QUARANTINED,)), (self.ack(1),)),
                    ),
                ),
            ),
            "s_drain": (When(peer & drained, tuple(tell_lease(copy, L.DRAINED) for copy in self.copies)),),
            "s_close": (
                *(tell_lease(copy, L.CLOSE) for copy in self.copies),
                *((Put(silent, NO),) if self.shape.silence else ()),
                When(peer, self.access(L.CLOSE)),
                Call("s_drain"),
            ),
            "s_start_parts": tuple(
                When(
                    ~over(ME) & Less(Num(part), self.sent) & ~self.started(part),
                    self.start(part),
                )
                for part in self.parts
            ),
            "s_send_abort": (When(reach, (self.shape.say(TO_RECEIVER, "ABORT"),)),),
            "s_send_query": (When(reach, (self.shape.say(TO_RECEIVER, "QUERY"),)),),
            "s_send_facts": (When(self.pending(), self.status(YES)),),
            "s_reply": self.status(NO),
        }
        if self.shape.push:
            found["s_quiet"] = (When(idle(self.shape), self.access(L.QUIET)),)
        return found

    def ack(self, quarantined: int) -> Statement:
        said = self.shape.say(TO_RECEIVER, "ABORT_ACK", quarantined=Num(quarantined))
        return said if quarantined else When(YES, (self.word(), said))

    def word(self) -> Must:
        """Whoever says that nothing of it can touch the other end's memory is right."""
        mine = idle(self.shape) if self.shape.push else YES
        return Must("AckMeansQuiescent", mine, "the sender said that it has drained while its operation was in flight")

    def access(self, event: LeaseEvent) -> Body:
        told = When(In(ACCESS, (LeaseState.QUARANTINED,)), (Call("s_answer_abort"),))
        return (Feed(ACCESS, event), *((told,) if self.shape.unresolved else ()))

    def status(self, answer: Term) -> Body:
        drain, stuck = drain_of(ACCESS)
        ended = self.shape.say(
            TO_RECEIVER, "OVER", success=pick(In(ME, (S,)), YES, NO), drain=pick(drain, YES, pick(stuck, Num(2), NO)),
            heard=pick(failed | concluded, YES, NO), answer=answer,
        )  # fmt: skip
        told = {f"told{part}": pick(self.told(part), YES, NO) for part in self.parts}
        live = self.shape.say(
            TO_RECEIVER, "LIVE", **told, closed=pick(self.closed(), YES, NO), meta=meta, answer=answer
        )  # fmt: skip
        return (When(over(ME), (When(drain, (self.word(),)), ended), (live,)),)

    def start(self, part: int) -> Body:
        final = ~self.open & self.all_started()
        go = Feed(ME, E.STARTED, (("final", final),), part)
        if self.shape.push:
            copy = tell_lease(self.copies[part], L.START)
            return (Put(self.shape.op(part), Num(Op.FLYING.value)), *self.access(L.START), copy, go)
        return (Put(self.offered[part], YES), tell_lease(self.copies[part], L.EXPOSE), go)

    def resolved(self, part: int, done: bool) -> Body:
        copy = self.copies[part]
        closed = (tell_lease(copy, L.CLOSE),) if done else ()
        return (tell_lease(copy, L.QUIET), *closed, Call("s_quiet"))

    # -- effects -------------------------------------------------------------------------------------------------------
    def effects(self) -> dict[tuple[str, Effect, int], Body]:
        simple = {
            X.SEND_ABORT: "s_send_abort", X.SEND_QUERY: "s_send_query", X.SEND_FACTS: "s_send_facts", X.REPLY: "s_reply",
            X.START_PARTS: "s_start_parts", X.CLOSE: "s_close",
        }  # fmt: skip
        found: dict[tuple[str, Effect, int], Body] = {
            (ME, effect, -1): (Call(name),) for effect, name in simple.items()
        }
        found[ME, X.SEND_CLOSE, -1] = (When(peer, (self.shape.say(TO_RECEIVER, "CLOSE"),)),)
        found[ME, X.ARM_SILENCE, -1] = (Put(silent, YES),) if self.shape.silence else ()
        for part in self.parts:
            found[ME, X.SEND_OFFER, part] = (self.shape.say(TO_RECEIVER, f"PART{part}"),)
            found[ME, X.SEND_PART_DONE, part] = found[ME, X.SEND_OFFER, part]
            found[ME, X.FENCE, part] = (Put(self.shape.op(part), Num(Op.FENCING.value)),)
        for lease in (*self.copies, ACCESS):
            found[lease, X.HAND_BACK, -1] = (Call("s_answer_abort"),) if lease == ACCESS else ()
            found[lease, X.NOTE_QUARANTINE, -1] = ()
        return found

    # -- messages ------------------------------------------------------------------------------------------------------
    def receives(self) -> Iterator[Receive]:
        no_leg, ack = self.shape.say(TO_RECEIVER, "NO_LEG"), self.shape.say(TO_RECEIVER, "ABORT_ACK", quarantined=NO)
        refuse: Body = (no_leg,)
        bury: Body = (Put(tomb, YES), self.word(), ack)
        hear_meta: Body = (Put(meta, YES), Feed(ME, E.META, (("all", YES),)))
        hear_concluded: Body = (
            Put(concluded, YES), Put(drained, YES), Call("s_drain"), Feed(ME, E.CONCLUDED, (("all", YES),)),
        )  # fmt: skip
        hear_failed: Body = (Put(failed, YES), Feed(ME, E.PEER_FAILED), Call("s_answer_abort"))
        bind = Feed(ME, E.BIND, (("is_push", YES if self.shape.push else NO), ("all", YES)))
        pair: Body = (Put(peer, YES), Feed(ACCESS, L.TAKE), When(over(ME), self.access(L.CLOSE)), bind)
        queried = When(Arg("answer"), (Feed(ME, E.QUERIED),))

        def unpaired(first: Body, late: Body, paired: Body) -> Body:
            """What a message means to a leg that is not paired, to a tombstone, and to a leg that is paired."""
            return (When(peer, paired, (When(tomb, late, first),)),)

        yield Receive(TO_SENDER, "ANNOUNCE", unpaired(pair, refuse, (bind,)))
        yield Receive(TO_SENDER, "META", unpaired(pair + hear_meta, refuse, (bind, *hear_meta)))
        yield Receive(TO_SENDER, "CONCLUDE", unpaired(bury, (self.word(), ack), hear_concluded))
        yield Receive(TO_SENDER, "ABORT", unpaired(bury, (self.word(), ack), hear_failed))
        yield Receive(TO_SENDER, "ABORT_ACK", (When(peer, self.hear_ack(Arg("quarantined"))),))
        yield Receive(TO_SENDER, "QUERY", unpaired(refuse, refuse, (Feed(ME, E.QUERIED),)))
        live: Body = (
            When(Arg("meta") & ~meta, hear_meta),
            Put(self.seen, pick(Less(self.seen, Arg("parts")), Arg("parts"), self.seen)),
            Put(total, pick(total | Arg("total"), YES, NO)),
            Feed(ME, E.LIVE),
            queried,
        )
        yield Receive(TO_SENDER, "LIVE", unpaired((*pair, When(Arg("meta"), hear_meta)), refuse, live))
        ended: Body = (
            When(Arg("success") & ~concluded, hear_concluded),
            When(~Arg("success") & ~failed, hear_failed),
            When(Arg("drain"), self.hear_ack(Arg("drain").is_(2))),
            queried,
        )
        yield Receive(TO_SENDER, "OVER", unpaired(bury, (self.word(), ack), ended))

    def hear_ack(self, quarantined: Term) -> Body:
        stuck = tuple(tell_lease(copy, L.PEER_UNRESOLVED) for copy in self.copies)
        return (
            Put(acked, YES),
            When(quarantined, (When(~drained, stuck),), (Put(drained, YES), Call("s_drain"))),
        )

    # -- steps ---------------------------------------------------------------------------------------------------------
    def steps(self) -> Iterator[Step]:
        shape, live = self.shape, self.alive & ~over(ME)
        for part in self.parts:
            yield self.send(part)
        if not self.parts or shape.tail:
            rows = (("last", YES), ("rows", YES if self.parts else NO), ("idle", peer & self.all_started()))
            body: Body = (Feed(ME, E.SEND, rows),)
            yield Step("the prefill engine closes its plan", live & self.open & self.sent.is_(shape.parts), body, True)
        if shape.push:
            for part in self.parts:
                yield from self.operation(part)
        quiet = Empty(TO_SENDER) & Empty(TO_RECEIVER)
        yield Step("the sender says its facts again", self.alive & self.pending() & quiet, (Feed(ME, E.RESEND),), True)
        nobody = over("receiver") | shape.dead("r")
        yield Step("nobody pairs the leg", live & ~peer & nobody & quiet, (Feed(ME, E.PAIRING),), True)
        yield from shape.fault("aborts", "the prefill engine aborts", live, (Feed(ME, E.ABORT),))
        yield from shape.fault("shutdowns", "the sender's process stops", live, (Feed(ME, E.SHUTDOWN),))
        yield from shape.fault("deadlines", "the sender's total deadline", live, (Feed(ME, E.TOTAL),))
        yield from shape.fault("deadlines", "the sender's pairing deadline", live & ~peer, (Feed(ME, E.PAIRING),))
        if shape.silence:
            yield from shape.fault("deadlines", "the sender asks", live & silent, (Feed(ME, E.ASK),))
            yield from shape.fault(
                "deadlines", "the sender's silence deadline", live & silent, (Put(silent, NO), Feed(ME, E.SILENCE))
            )
        if shape.crashes:
            dead = Var("s_dead")
            yield from shape.fault("crashes", "the sender crashes", ~dead, (Put(dead, YES), Clear(TO_SENDER)))
            yield from self.peer_lost(Var("r_dead"))

    def send(self, part: int) -> Step:
        last = YES if part + 1 == self.shape.parts and not self.shape.tail else NO
        copy = self.copies[part]
        call = Feed(ME, E.SEND, (("last", last), ("rows", YES), ("idle", NO)))
        lend: Body = (Feed(copy, L.TAKE), Feed(copy, L.START), Feed(copy, L.QUIET), Feed(ME, E.STARTABLE))
        body: Body = (When(In(ME, (F,)), (call,), (Put(self.sent, Num(part + 1)), call, *lend)),)
        guard = self.alive & self.open & self.sent.is_(part)
        return Step(f"the prefill engine sends part {part}", guard, body, True)

    def operation(self, part: int) -> Iterator[Step]:
        """Push: what becomes of our operation."""
        op, shape = self.shape.op(part), self.shape
        flying = self.alive & op.is_(Op.FLYING.value)

        def ends(state: Op, event: SenderEvent | None) -> Body:
            told = () if event is None else (Feed(ME, event, (), part),)
            return (Put(op, Num(state.value)), *self.resolved(part, state is Op.DONE), *told)

        yield Step(f"part {part} is written", flying, ends(Op.DONE, E.OP_DONE), True)
        if shape.aborts or shape.crashes or shape.deadlines or shape.shutdowns or shape.failures or shape.unresolved:
            yield Step(f"writing part {part} is cancelled", flying & over(ME), ends(Op.QUIET, E.OP_FAILED))
        yield from shape.fault(
            "failures", f"writing part {part} fails", flying & ~over(ME), ends(Op.QUIET, E.OP_FAILED)
        )
        stuck = (
            Put(op, Num(Op.UNRESOLVED.value)), *self.access(L.UNRESOLVED), tell_lease(self.copies[part], L.UNRESOLVED),
            Feed(ME, E.OP_UNRESOLVED, (), part),
        )  # fmt: skip
        yield from shape.fault("unresolved", f"writing part {part} is unresolved", flying, stuck)
        if shape.unresolved:
            fenced = self.alive & op.is_(Op.FENCING.value)
            yield Step(f"the fence of part {part} is proved", fenced, ends(Op.QUIET, None), True)

    def peer_lost(self, dead: Term) -> Iterator[Step]:
        here = self.alive & dead & peer
        yield Step(
            "the sender hears that the receiver is lost", here & ~lost,
            (Put(lost, YES), Clear(TO_SENDER), Feed(ME, E.PEER_LOST)), True,
        )  # fmt: skip
        proved: list[Statement] = [Put(gone, YES), Put(drained, YES)]
        for part in self.parts:
            ended = Put(self.shape.op(part), Num(Op.QUIET.value))
            quiet = (tell_lease(self.copies[part], L.QUIET),) if self.shape.push else ()
            proved.append(guarded(touched(self.shape.op(part)), ended, *quiet))
        proved += [Call("s_quiet")] if self.shape.push else []
        yield Step("the sender has fenced the receiver", here & lost & ~gone, (*proved, Call("s_drain")), True)
