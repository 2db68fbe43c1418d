"""The receiver's side of a declared pair world: what its session does around the receiver's table. See :mod:`.shape`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvpoll.spec import LEASE, RECEIVER, Effect, KVPoll, LeaseEvent, LeaseState, ReceiverEvent
from kvpoll.spec.receiver_table import busy, gated, linked, whole

from .shape import TO_RECEIVER, TO_SENDER, Op, Shape, Side, back, drain_of, idle, out, over, tell_lease, touched
from .terms import NO, YES, Arg, Empty, Has, In, Num, Sum, Term, Var, either, every, pick
from .world import Body, Call, Clear, Feed, Machine, Must, Put, Receive, Statement, Step, When

__all__ = ["receiver_side"]

ME, ACCESS, BUFFER, PAGES = "receiver", "r_access", "buffer", "pages"
E, L, X = ReceiverEvent, LeaseEvent, Effect
B, W, T, S, F = (
    KVPoll.Bootstrapping, KVPoll.WaitingForInput, KVPoll.Transferring, KVPoll.Success, KVPoll.Failed,
)  # fmt: skip

link = Var("r_link", why="the link to the sender is open")
given = Var("r_meta", why="the engine handed pages over")
bound = Var("r_bound", why="the sender said that a leg is paired with this attempt")
total = Var("r_total", why="the sender closed its plan")
failed = Var("r_failed", why="the sender said that it failed")
acked = Var("r_acked", why="the sender answered our ABORT")
drained = Var("r_drained", why="nothing of the sender can touch our memory")
ended = Var("r_over", why="the sender is over, so it needs no conclusion")
saw_announce = Var("r_saw_announce", why="the sender holds our ANNOUNCE")
saw_meta = Var("r_saw_meta", why="the sender holds our META")
saw_over = Var("r_saw_over", why="the sender holds our CONCLUDE or ABORT")
ready = Var("r_ready", why="the engine was told that it can commit")
lost = Var("r_lost", why="the sender's process was declared lost")
gone = Var("r_gone", why="... and is fenced")
silent = Var("r_silence", why="the silence deadline is armed")
opened = Var("r_gate", why="the gate is open")


def receiver_side(shape: Shape) -> Side:
    """Machines, counters, procedures, effects, and steps of the receiver."""
    return _Receiver(shape).side()


class _Receiver:
    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.parts = range(shape.parts)
        self.heard = [Var(f"r_heard{part}", why="the sender told us of this part") for part in self.parts]
        self.alive = ~shape.dead("r")
        self.gone = gone if shape.crashes else NO

    def side(self) -> Side:
        variables = [link, given, bound, total, failed, acked, drained, ended, saw_announce, saw_meta, saw_over, ready]
        variables += self.heard
        variables += [opened] if self.shape.gate else []
        variables += [lost, gone, Var("r_dead", why="the receiver's process has crashed")] if self.shape.crashes else []
        variables += [silent] if self.shape.silence else []
        leases = (Machine(BUFFER, LEASE), Machine(PAGES, LEASE), Machine(ACCESS, LEASE, LeaseState.HELD))
        settled = every((over(ME), ~out(BUFFER), ~out(PAGES), back(ACCESS), ~self.pending(), ~Has(ME, busy, True)))
        return Side(
            machines=(Machine(ME, RECEIVER), *leases),
            variables=tuple(variables),
            procedures=self.procedures(),
            effects=self.effects(),
            receives=tuple(self.receives()),
            steps=tuple(self.steps()),
            settled=~self.alive | settled,
        )

    # -- what it knows -------------------------------------------------------------------------------------------------
    def reach(self) -> Term:
        return link & ~self.gone

    def arrived(self, part: int) -> Term:
        return self.heard[part] if self.shape.push else self.shape.op(part).is_(Op.DONE.value)

    def now_whole(self) -> Term:
        """Everything planned has arrived."""
        return total & every(self.arrived(part) for part in self.parts)

    def told_meta(self) -> Term:
        return given & Has(ME, linked, True)

    def pending(self) -> Term:
        """Something that was said has had no answer: the re-send clock runs."""
        unmet = ~saw_announce & ~bound
        untold = self.told_meta() & ~either((saw_meta, total, *self.heard))
        live = ~Has(ME, whole, True) & (unmet | untold)
        done = ~ended & ~saw_over
        stuck = either(In(lease, (LeaseState.QUARANTINED,)) for lease in (BUFFER, PAGES))
        drains = acked & ~drained & stuck  # its drain word follows the fence, and may be lost
        return self.reach() & pick(In(ME, (F,)), ~acked | drains, pick(In(ME, (S,)), done | drains, live))

    # -- procedures ----------------------------------------------------------------------------------------------------
    def procedures(self) -> dict[str, Body]:
        here = either((drained, ~link, total & every(self.heard) if self.shape.push else NO))
        found: dict[str, Body] = {
            "r_answer_abort": (
                When(
                    failed & ~self.gone & over(ME),
                    (
                        When(back(ACCESS), (self.word(), self.ack(0))),
                        When(In(ACCESS, (LeaseState.QUARANTINED,)), (self.ack(1),)),
                    ),
                ),
            ),
            "r_drain": (When(here, (tell_lease(BUFFER, L.DRAINED), tell_lease(PAGES, L.DRAINED))),),
            "r_close": (
                tell_lease(BUFFER, L.CLOSE),
                tell_lease(PAGES, L.CLOSE),
                *((Put(silent, NO),) if self.shape.silence else ()),
                *self.access(L.CLOSE),
                Call("r_drain"),
            ),
            "r_send_abort": (When(self.reach(), (self.shape.say(TO_SENDER, "ABORT"),)),),
            "r_send_query": (When(self.reach(), (self.shape.say(TO_SENDER, "QUERY"),)),),
            "r_send_facts": (When(self.pending(), self.status(YES)),),
            "r_reply": self.status(NO),
        }
        if not self.shape.push:
            found["r_fetch"] = tuple(
                When(
                    self.heard[part] & self.shape.op(part).is_(Op.NONE.value),
                    (
                        Put(self.shape.op(part), Num(Op.FLYING.value)),
                        *self.access(L.START),
                        tell_lease(BUFFER, L.START),
                    ),
                )
                for part in self.parts
            )
            found["r_quiet"] = (When(idle(self.shape), self.access(L.QUIET)),)
        return found

    def ack(self, quarantined: int) -> Statement:
        return self.shape.say(TO_SENDER, "ABORT_ACK", quarantined=Num(quarantined))

    def word(self) -> Must:
        """Whoever says that nothing of it can touch the other end's memory is right."""
        mine = YES if self.shape.push else idle(self.shape)
        return Must(
            "AckMeansQuiescent", mine, "the receiver said that it has drained while its operation was in flight"
        )

    def access(self, event: LeaseEvent) -> Body:
        told = When(In(ACCESS, (LeaseState.QUARANTINED,)), (Call("r_answer_abort"),))
        return (Feed(ACCESS, event), *((told,) if self.shape.unresolved else ()))

    def status(self, answer: Term) -> Body:
        drain, stuck = drain_of(ACCESS)
        said = self.shape.say(
            TO_SENDER, "OVER", success=pick(In(ME, (S,)), YES, NO), drain=pick(drain, YES, pick(stuck, Num(2), NO)),
            answer=answer,
        )  # fmt: skip
        live = self.shape.say(
            TO_SENDER, "LIVE", meta=pick(self.told_meta(), YES, NO), parts=Sum((Num(0), *self.heard)), total=total,
            answer=answer,
        )  # fmt: skip
        return (When(over(ME), (When(drain | In(ME, (S,)), (self.word(),)), said), (live,)),)

    # -- effects -------------------------------------------------------------------------------------------------------
    def effects(self) -> dict[tuple[str, Effect, int], Body]:
        simple = {
            X.SEND_ABORT: "r_send_abort", X.SEND_QUERY: "r_send_query", X.SEND_FACTS: "r_send_facts", X.REPLY: "r_reply",
            X.CLOSE: "r_close",
        }  # fmt: skip
        found: dict[tuple[str, Effect, int], Body] = {
            (ME, effect, -1): (Call(name),) for effect, name in simple.items()
        }
        found[ME, X.SEND_ANNOUNCE, -1] = (self.shape.say(TO_SENDER, "ANNOUNCE"),)
        found[ME, X.SEND_META, -1] = (self.shape.say(TO_SENDER, "META"),)
        found[ME, X.SEND_CONCLUDE, -1] = (When(self.reach(), (self.word(), self.shape.say(TO_SENDER, "CONCLUDE"))),)
        found[ME, X.EXPOSE, -1] = (tell_lease(BUFFER, L.EXPOSE),)
        found[ME, X.FETCH, -1] = () if self.shape.push else (Call("r_fetch"),)
        found[ME, X.READY, -1] = (Put(ready, YES),)
        found[ME, X.ARM_SILENCE, -1] = (Put(silent, YES),) if self.shape.silence else ()
        for part in self.parts:
            found[ME, X.FENCE, part] = (Put(self.shape.op(part), Num(Op.FENCING.value)),)
        for lease in (BUFFER, PAGES, ACCESS):
            found[lease, X.HAND_BACK, -1] = (Call("r_answer_abort"),) if lease == ACCESS else ()
            found[lease, X.NOTE_QUARANTINE, -1] = ()
        return found

    # -- messages ------------------------------------------------------------------------------------------------------
    def receives(self) -> Iterator[Receive]:
        hear_bound = When(~bound, (Put(bound, YES), Feed(ME, E.BOUND, (("all", YES),))))
        hear_failed: Body = (Put(failed, YES), Feed(ME, E.PEER_FAILED), Call("r_answer_abort"))
        queried = When(Arg("answer"), (Feed(ME, E.QUERIED),))
        for part in self.parts:
            told = [YES if part == other else NO for other in self.parts]
            yield Receive(TO_RECEIVER, f"PART{part}", (hear_bound, self.hear_plan(told, NO)))
        yield Receive(TO_RECEIVER, "CLOSE", (hear_bound, self.hear_plan([NO for _ in self.parts], YES)))
        yield Receive(TO_RECEIVER, "ABORT", hear_failed)
        yield Receive(TO_RECEIVER, "ABORT_ACK", self.hear_ack(Arg("quarantined")))
        yield Receive(TO_RECEIVER, "QUERY", (Feed(ME, E.QUERIED),))
        nothing = (Put(acked, YES), Put(drained, YES), Put(ended, YES), Call("r_drain"), Feed(ME, E.NO_LEG))
        yield Receive(TO_RECEIVER, "NO_LEG", nothing)
        each = [Arg(f"told{part}") for part in self.parts]
        live: Body = (
            hear_bound,
            When(either((*each, Arg("closed"))), (self.hear_plan(each, Arg("closed")),)),
            Put(saw_announce, YES),
            Put(saw_meta, pick(saw_meta | Arg("meta"), YES, NO)),
            Feed(ME, E.LIVE),
            queried,
        )
        yield Receive(TO_RECEIVER, "LIVE", live)
        ends: Body = (
            hear_bound,
            Put(ended, YES),
            Put(saw_announce, YES),
            Put(saw_over, pick(saw_over | Arg("heard"), YES, NO)),
            When(~Arg("success") & ~failed, hear_failed),
            When(Arg("drain"), self.hear_ack(Arg("drain").is_(2))),
            queried,
        )
        yield Receive(TO_RECEIVER, "OVER", ends)

    def hear_plan(self, told: Sequence[Term], closed: Term) -> Statement:
        """Join what was heard of the sender's plan; the table hears of it if any of it is new."""
        fresh = either(now & ~known for now, known in zip(told, self.heard, strict=True))
        joined = tuple(
            Put(known, pick(known | now, YES, NO))
            for now, known in zip(told, self.heard, strict=True)
            if now != NO
        )  # fmt: skip
        close = () if closed == NO else (Put(total, pick(total | closed, YES, NO)),)
        news = fresh | (closed & ~total)
        parts = Feed(ME, E.PARTS, (("whole_now", self.now_whole()),))
        return When(~over(ME) & news, (*joined, *close, Call("r_drain"), parts))

    def hear_ack(self, quarantined: Term) -> Body:
        stuck = (tell_lease(BUFFER, L.PEER_UNRESOLVED), tell_lease(PAGES, L.PEER_UNRESOLVED))
        return (
            Put(acked, YES),
            When(quarantined, (When(~drained, stuck),), (Put(drained, YES), Call("r_drain"))),
        )

    # -- steps ---------------------------------------------------------------------------------------------------------
    def steps(self) -> Iterator[Step]:
        shape, live = self.shape, self.alive & ~over(ME)
        up = ~shape.dead("s")
        open_link = Feed(ME, E.LINKED, (("all", YES), ("is_push", YES if shape.push else NO)))
        yield Step("the link opens", self.alive & up & ~link, (Put(link, YES), open_link), True)
        if shape.crashes:
            yield Step("nobody answers", live & ~up & ~link, (Feed(ME, E.UNREACHABLE),), True)
        yield self.pages()
        if shape.gate:
            body: Body = (Put(opened, YES), Feed(ME, E.GATE_OPEN, (("all", YES),)))
            yield Step("the gate opens", self.alive & given & ~opened, body, True)
            yield from shape.fault("deadlines", "the gate deadline", live & given & ~opened, (Feed(ME, E.GATE),))
            yield from shape.fault("failures", "the gate fails", live & given & ~opened, (Feed(ME, E.GATE_FAILED),))
        yield from self.commit()
        if not shape.push:
            for part in self.parts:
                yield from self.operation(part)
        quiet = Empty(TO_SENDER) & Empty(TO_RECEIVER)
        yield Step(
            "the receiver says its facts again", self.alive & self.pending() & quiet, (Feed(ME, E.RESEND),), True
        )
        yield from shape.fault("aborts", "the decode engine aborts", live, (Feed(ME, E.ABORT),))
        yield from shape.fault("shutdowns", "the receiver's process stops", live, (Feed(ME, E.SHUTDOWN),))
        yield from shape.fault("deadlines", "the receiver's total deadline", live, (Feed(ME, E.TOTAL),))
        yield from shape.fault("deadlines", "the receiver's pairing deadline", live & ~bound, (Feed(ME, E.PAIRING),))
        if shape.silence:
            yield from shape.fault("deadlines", "the receiver asks", live & silent, (Feed(ME, E.ASK),))
            yield from shape.fault(
                "deadlines", "the receiver's silence deadline", live & silent, (Put(silent, NO), Feed(ME, E.SILENCE))
            )
        if shape.crashes:
            dead = Var("r_dead")
            yield from shape.fault("crashes", "the receiver crashes", ~dead, (Put(dead, YES), Clear(TO_RECEIVER)))
            yield from self.peer_lost(Var("s_dead"))

    def pages(self) -> Step:
        call = Feed(ME, E.META, (("gates", ~opened if self.shape.gate else NO),))
        late = When(over(ME), (tell_lease(PAGES, L.CLOSE), tell_lease(BUFFER, L.CLOSE)))
        lend: Body = (Feed(PAGES, L.TAKE), Feed(BUFFER, L.TAKE))
        return Step(
            "the decode engine hands pages over", self.alive & ~given, (Put(given, YES), *lend, call, late), True
        )

    def commit(self) -> Iterator[Step]:
        may = In(ME, (T,)) & Has(ME, whole, True) & Has(ME, gated, False) & Has(ME, busy, False)
        both = (tell_lease(BUFFER, L.START), tell_lease(PAGES, L.START))
        quiet = (tell_lease(BUFFER, L.QUIET), tell_lease(PAGES, L.QUIET))
        yield Step("the decode engine commits", self.alive & ready & may, (Feed(ME, E.COMMIT), *both), True)
        writes = self.alive & Has(ME, busy, True)
        yield Step("the commit is done", writes, (*quiet, Feed(ME, E.COMMITTED)), True)
        yield from self.shape.fault("failures", "the commit fails", writes, (*quiet, Feed(ME, E.COMMIT_FAILED)))

    def operation(self, part: int) -> Iterator[Step]:
        """Pull: what becomes of our operation."""
        op, shape = self.shape.op(part), self.shape
        flying = self.alive & op.is_(Op.FLYING.value)
        free = When(idle(shape) & ~Has(ME, busy, True), (tell_lease(BUFFER, L.QUIET),))

        def ends(state: Op, *told: Statement) -> Body:
            return (Put(op, Num(state.value)), free, Call("r_quiet"), *told)

        done = ends(Op.DONE, Feed(ME, E.OP_DONE, (("whole_now", self.now_whole()),), part))
        fails = ends(Op.QUIET, Feed(ME, E.OP_FAILED, (), part))
        yield Step(f"part {part} is pulled", flying, done, True)
        if shape.aborts or shape.crashes or shape.deadlines or shape.shutdowns or shape.failures or shape.unresolved:
            yield Step(f"pulling part {part} is cancelled", flying & over(ME), fails)
        yield from shape.fault("failures", f"pulling part {part} fails", flying & ~over(ME), fails)
        stuck = (
            Put(op, Num(Op.UNRESOLVED.value)), *self.access(L.UNRESOLVED), tell_lease(BUFFER, L.UNRESOLVED),
            Feed(ME, E.OP_UNRESOLVED, (), part),
        )  # fmt: skip
        yield from shape.fault("unresolved", f"pulling part {part} is unresolved", flying, stuck)
        if shape.unresolved:
            fenced = self.alive & op.is_(Op.FENCING.value)
            yield Step(f"the fence of part {part} is proved", fenced, ends(Op.QUIET), True)

    def peer_lost(self, dead: Term) -> Iterator[Step]:
        here = self.alive & dead & link
        yield Step(
            "the receiver hears that the sender is lost", here & ~lost,
            (Put(lost, YES), Clear(TO_RECEIVER), Feed(ME, E.PEER_LOST)), True,
        )  # fmt: skip
        proved: list[Statement] = [Put(gone, YES), Put(drained, YES)]
        proved += [When(touched(op), (Put(op, Num(Op.QUIET.value)),)) for op in self.shape.ops]
        if not self.shape.push:
            proved += [When(~Has(ME, busy, True), (tell_lease(BUFFER, L.QUIET),)), Call("r_quiet")]
        yield Step("the receiver has fenced the sender", here & lost & ~gone, (*proved, Call("r_drain")), True)
