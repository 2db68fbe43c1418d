"""The sender's table: the prefill side of one attempt at one rank.

Rules of this file:

1. Everything that changes a sender's state stands here; sessions only feed events and carry out effects.
2. The sender never decides success: it becomes Success on the receiver's word (CONCLUDED from every receiver rank).
3. ``doubt`` is true from the start (push) or offer (pull) of the last unfinished part on: from then on the receiver may
   have succeeded without us hearing of it, and every failure says so, except one that a receiver rank's ABORT caused.
4. No event is undecided in any state. A late message never re-creates anything (Q02, Q04), a failure is never lost
   (Q01) and a success never revoked (Q03), because Failed and Success have no GO or FAIL row.

A leg is created Bootstrapping and unbound. The core pairs it with an attempt by (room, fingerprint): BIND. Each receiver
rank says where data goes: META. Parts that the engine already sent wait until every receiver rank has said so.
"""

from __future__ import annotations

from enum import Enum

from .causes import Cause as C
from .effects import Effect as X
from .states import TERMINAL, KVPoll
from .table import ALWAYS, EventSpec, Field, Row, Source, Table, fail, go, ignore, never, refuse, stay

__all__ = ["SENDER", "SenderEvent"]


class SenderEvent(Enum):
    SEND = "SEND"
    STARTABLE = "STARTABLE"
    ABORT = "ABORT"
    BIND = "BIND"
    META = "META"
    PLAN_REFUSED = "PLAN_REFUSED"
    PEER_FAILED = "PEER_FAILED"
    CONCLUDED = "CONCLUDED"
    LIVE = "LIVE"
    QUERIED = "QUERIED"
    PASSED = "PASSED"
    SUPERSEDED = "SUPERSEDED"
    STARTED = "STARTED"
    SKIPPED = "SKIPPED"
    OP_DONE = "OP_DONE"
    OP_FAILED = "OP_FAILED"
    OP_UNRESOLVED = "OP_UNRESOLVED"
    RESEND = "RESEND"
    ASK = "ASK"
    SILENCE = "SILENCE"
    PAIRING = "PAIRING"
    TOTAL = "TOTAL"
    PEER_LOST = "PEER_LOST"
    SHUTDOWN = "SHUTDOWN"


E = SenderEvent
_TF = (False, True)

# Fields of the machine.
bound = Field("bound", _TF, False, "an attempt of a receiver engine is paired with this leg")
met = Field("met", _TF, False, "every receiver rank of that attempt has announced itself")
push = Field("push", _TF, False, "the pair's transport is a push transport (known when bound)")
plan = Field("plan", ("open", "closed", "empty"), "open", "may the engine still send; empty: this rank owns no rows")
doubt = Field("doubt", _TF, False, "the receiver may have succeeded without us hearing of it (rule 3)")
asked = Field("asked", _TF, False, "a QUERY went out since the peer last named this attempt as live")

# Arguments of events.
last = Field("last", _TF, False, "this chunk closes the plan")
rows = Field("rows", _TF, True, "the plan has at least one part, this chunk's included")
idle = Field("idle", _TF, False, "no part waits to be started, this chunk's included")
all_ = Field("all", _TF, False, "with this message every receiver rank has said it")
final = Field("final", _TF, False, "the plan is closed and no part waits to be started any more")
is_push = Field("is_push", _TF, False, "the transport that the receiver picked pushes")

_EVENTS = (
    EventSpec(E.SEND, Source.ENGINE, (last, rows, idle), "the engine hands over a chunk"),
    EventSpec(E.STARTABLE, Source.TRANSPORT, (), "a part was gathered, or a credit came back"),
    EventSpec(E.ABORT, Source.ENGINE, (), "the engine gives the request up"),
    EventSpec(E.BIND, Source.PEER, (is_push, all_), "ANNOUNCE with an equal room and fingerprint"),
    EventSpec(E.META, Source.PEER, (all_,), "a receiver rank says where data goes"),
    EventSpec(E.PLAN_REFUSED, Source.PEER, (), "META or geometry does not fit this request"),
    EventSpec(E.PEER_FAILED, Source.PEER, (), "ABORT of a receiver rank"),
    EventSpec(E.CONCLUDED, Source.PEER, (all_,), "CONCLUDE: a receiver rank committed"),
    EventSpec(E.LIVE, Source.PEER, (), "STATUS that names this attempt as live"),
    EventSpec(E.QUERIED, Source.PEER, (), "QUERY, or a STATUS that wants an answer"),
    EventSpec(E.PASSED, Source.PEER, (), "a receiver rank's low_water went past us, its conclusion not held"),
    EventSpec(E.SUPERSEDED, Source.PEER, (), "a higher gen of the same engine announced this room"),
    EventSpec(E.STARTED, Source.TRANSPORT, (final,), "a part was admitted to the transport (push) or offered (pull)"),
    EventSpec(E.SKIPPED, Source.TRANSPORT, (final,), "a part would start, but this receiver rank gets nothing of it"),
    EventSpec(E.OP_DONE, Source.TRANSPORT, (), "every operation of a part is done and quiescent"),
    EventSpec(E.OP_FAILED, Source.TRANSPORT, (), "an operation failed and is quiescent"),
    EventSpec(E.OP_UNRESOLVED, Source.TRANSPORT, (), "an operation may still touch memory"),
    EventSpec(E.RESEND, Source.CLOCK, (), "a fact has had no answer for a re-send interval"),
    EventSpec(E.ASK, Source.CLOCK, (), "half of the silence deadline"),
    EventSpec(E.SILENCE, Source.CLOCK, (), "the silence deadline"),
    EventSpec(E.PAIRING, Source.CLOCK, (), "the pairing deadline"),
    EventSpec(E.TOTAL, Source.CLOCK, (), "the total deadline"),
    EventSpec(E.PEER_LOST, Source.PROCESS, (), "a receiver rank's process was declared lost, or its link is over"),
    EventSpec(E.SHUTDOWN, Source.PROCESS, (), "this process stops"),
)

B, W, T, S, F = (
    KVPoll.Bootstrapping,
    KVPoll.WaitingForInput,
    KVPoll.Transferring,
    KVPoll.Success,
    KVPoll.Failed,
)
_ = ALWAYS
_OPEN, _SHUT, _EMPTY = plan.is_("open"), plan.is_("closed"), plan.is_("empty")
_END = (X.SEND_ABORT, X.CLOSE)  # what every failure does

# fmt: off
_ROWS: tuple[Row, ...] = (
    # -- Bootstrapping: no leg of the receiver yet, or not every receiver rank has said where data goes
    stay  (B, E.SEND,          _OPEN & last & rows,    (plan.to("closed"),), (),               "prefill first: the parts wait, gathered, for META"),
    stay  (B, E.SEND,          _OPEN & last & ~rows,   (plan.to("empty"),), (),                "this rank owns no rows; its plan closes by message once bound"),
    stay  (B, E.SEND,          _OPEN & ~last,          (), (),                                 "chunked prefill may run ahead of the receiver"),
    refuse(B, E.SEND,          ~_OPEN,                                                         "the plan is closed: nothing follows the last chunk (Q15)"),
    ignore(B, E.STARTABLE,     _,                      (),                                     "gathered; it waits for META"),
    fail  (B, E.ABORT,         _,                      F, C.ABORTED, (), _END,                 "the peer is told at once; it must not wait for its own deadline (Q08)"),
    stay  (B, E.BIND,          ~bound,                 (bound.to(True), met.to(all_), push.to(is_push)), (X.ARM_SILENCE, X.REPLY), "from here on silence counts; pairing, too, until every rank was met"),
    stay  (B, E.BIND,          bound & ~met & all_,    (met.to(True),), (X.REPLY,),            "the last rank of the attempt"),
    ignore(B, E.BIND,          bound & ~(~met & all_), (X.REPLY,),                             "another rank of the same attempt, or a copy"),
    go    (B, E.META,          bound & all_ & _EMPTY,  T, (doubt.to(True),), (X.SEND_CLOSE, X.REPLY), "an empty plan is in doubt from its closing message on"),
    go    (B, E.META,          bound & all_ & _SHUT,   W, (), (X.SEND_CLOSE, X.START_PARTS, X.REPLY), "everything was sent already: start it, and say how much it is"),
    go    (B, E.META,          bound & all_ & _OPEN,   W, (), (X.START_PARTS, X.REPLY),        "what was sent so far can start"),
    stay  (B, E.META,          bound & ~all_,          (), (X.REPLY,),                         "other receiver ranks are still allocating"),
    never (B, E.META,          ~bound,                                                         "the core pairs a leg before it hands on META"),
    fail  (B, E.PLAN_REFUSED,  _,                      F, C.PLAN_REFUSED, (), _END,            "too few destinations is a refusal, never a truncation (Q26)"),
    fail  (B, E.PEER_FAILED,   bound,                  F, C.PEER_ABORTED, (), _END,            "the receiver gave up before anything was started"),
    never (B, E.PEER_FAILED,   ~bound,                                                         "an unbound leg has no peer; the core keeps such an ABORT as a tombstone (Q13)"),
    fail  (B, E.CONCLUDED,     bound,                  F, C.PROTOCOL, (), _END,                "nothing was sent, so nothing can have been received"),
    never (B, E.CONCLUDED,     ~bound,                                                         "an unbound leg has no peer"),
    stay  (B, E.LIVE,          bound,                  (asked.to(False),), (X.ARM_SILENCE,),   "the receiver still allocates"),
    never (B, E.LIVE,          ~bound,                                                         "an unbound leg has no peer"),
    stay  (B, E.QUERIED,       bound,                  (), (X.REPLY,),                         "a query is always answered"),
    never (B, E.QUERIED,       ~bound,                                                         "the core answers for attempts that no leg is bound to"),
    fail  (B, E.PASSED,        bound,                  F, C.ATTEMPT_OVER, (), _END,            "the receiver rank no longer holds the attempt"),
    never (B, E.PASSED,        ~bound,                                                         "an unbound leg has no gen"),
    fail  (B, E.SUPERSEDED,    bound,                  F, C.SUPERSEDED, (), _END,              "nothing was started: the newer attempt may have the room"),
    never (B, E.SUPERSEDED,    ~bound,                                                         "an unbound leg has no gen"),
    never (B, E.STARTED,       _,                                                              "parts start only after META of every rank"),
    never (B, E.SKIPPED,       _,                                                              "parts start only after META of every rank"),
    never (B, E.OP_DONE,       _,                                                              "nothing was started"),
    never (B, E.OP_FAILED,     _,                                                              "nothing was started"),
    never (B, E.OP_UNRESOLVED, _,                                                              "nothing was started"),
    never (B, E.RESEND,        _,                                                              "nothing waits for an answer: the receiver re-sends ANNOUNCE until it hears of us"),
    stay  (B, E.ASK,           bound,                  (asked.to(True),), (X.SEND_QUERY,),     "half of the silence is over: ask"),
    never (B, E.ASK,           ~bound,                                                         "the silence deadline is armed when bound"),
    fail  (B, E.SILENCE,       bound,                  F, C.SILENCE, (), _END,                 "a bound receiver that never answers (Q04: its late META finds a tombstone)"),
    never (B, E.SILENCE,       ~bound,                                                         "the silence deadline is armed when bound"),
    fail  (B, E.PAIRING,       ~met,                   F, C.NO_ANNOUNCE, (), _END,             "a leg of the other engine never arrived, at one rank or at all (HalfOpenEnds)"),
    ignore(B, E.PAIRING,       met,                    (),                                     "stale: the legs have met"),
    fail  (B, E.TOTAL,         _,                      F, C.TOTAL_DEADLINE, (), _END,          "nothing re-arms the total deadline"),
    fail  (B, E.PEER_LOST,     bound,                  F, C.PEER_LOST, (), _END,               "the attempt lived on that link"),
    never (B, E.PEER_LOST,     ~bound,                                                         "an unbound leg is on no link"),
    fail  (B, E.SHUTDOWN,      _,                      F, C.SHUTDOWN, (), _END,                "the peer hears of it before the process goes (J01)"),

    # -- WaitingForInput: destinations known, nothing started
    stay  (W, E.SEND,          _OPEN & ~last & rows,   (), (),                                 "a chunk starts as soon as it is gathered"),
    ignore(W, E.SEND,          _OPEN & ~last & ~rows,  (),                                     "a chunk in which this rank owns no rows"),
    stay  (W, E.SEND,          _OPEN & last & rows & ~idle, (plan.to("closed"),), (X.SEND_CLOSE,), "the last chunk closes the plan with its totals"),
    go    (W, E.SEND,          _OPEN & last & rows & idle, T, (plan.to("closed"), doubt.to(True)), (X.SEND_CLOSE,), "every part went to nobody: as good as an empty plan"),
    go    (W, E.SEND,          _OPEN & last & ~rows,   T, (plan.to("empty"), doubt.to(True)), (X.SEND_CLOSE,), "an empty plan is in doubt from its closing message on"),
    refuse(W, E.SEND,          ~_OPEN,                                                         "the plan is closed: nothing follows the last chunk"),
    stay  (W, E.STARTABLE,     _,                      (), (X.START_PARTS,),                   "read only after the device work that writes it is finished (B01)"),
    fail  (W, E.ABORT,         _,                      F, C.ABORTED, (), _END,                 "nothing was started: this rank may fail alone"),
    ignore(W, E.BIND,          _,                      (X.REPLY,),                             "a copy of ANNOUNCE"),
    ignore(W, E.META,          _,                      (X.REPLY,),                             "a copy of META; the first one holds (Q48)"),
    fail  (W, E.PLAN_REFUSED,  _,                      F, C.PLAN_REFUSED, (), _END,            "a second META that differs, or lengths that disagree"),
    fail  (W, E.PEER_FAILED,   _,                      F, C.PEER_ABORTED, (), _END,            "the receiver gave up before anything was started"),
    fail  (W, E.CONCLUDED,     _,                      F, C.PROTOCOL, (), _END,                "nothing was started, so nothing can have been received"),
    stay  (W, E.LIVE,          _,                      (asked.to(False),), (X.ARM_SILENCE,),   "the receiver waits for this prefill"),
    stay  (W, E.QUERIED,       _,                      (), (X.REPLY,),                         "a long prefill: the answer keeps the receiver waiting (C02)"),
    fail  (W, E.PASSED,        _,                      F, C.ATTEMPT_OVER, (), _END,            "the receiver rank no longer holds the attempt"),
    fail  (W, E.SUPERSEDED,    _,                      F, C.SUPERSEDED, (), _END,              "nothing was started: the newer attempt may have the room"),
    go    (W, E.STARTED,       push & final,           T, (doubt.to(True),), (),               "the only part is on its way"),
    go    (W, E.STARTED,       push & ~final,          T, (), (),                              "the first part is on its way"),
    go    (W, E.STARTED,       ~push & final,          T, (doubt.to(True),), (X.SEND_OFFER,),  "the only part can be read from now on"),
    go    (W, E.STARTED,       ~push & ~final,         T, (), (X.SEND_OFFER,),                 "the first part can be read from now on"),
    go    (W, E.SKIPPED,       final,                  T, (doubt.to(True),), (),               "nobody gets anything: in doubt from its closing message on"),
    ignore(W, E.SKIPPED,       ~final,                 (),                                     "other parts, or other receiver ranks, may get something"),
    never (W, E.OP_DONE,       _,                                                              "nothing was started"),
    fail  (W, E.OP_FAILED,     _,                      F, C.TRANSPORT_FAILED, (), _END,        "the transport would not take the first part (deleted array, no room)"),
    never (W, E.OP_UNRESOLVED, _,                                                              "nothing was started"),
    stay  (W, E.RESEND,        _,                      (), (X.SEND_FACTS,),                    "a fact is re-sent until an answer contains it"),
    stay  (W, E.ASK,           _,                      (asked.to(True),), (X.SEND_QUERY,),     "half of the silence is over: ask"),
    fail  (W, E.SILENCE,       _,                      F, C.SILENCE, (), _END,                 "not in doubt: nothing was started"),
    ignore(W, E.PAIRING,       _,                      (),                                     "stale: the legs have met"),
    fail  (W, E.TOTAL,         _,                      F, C.TOTAL_DEADLINE, (), _END,          "W has a deadline here (Q09)"),
    fail  (W, E.PEER_LOST,     _,                      F, C.PEER_LOST, (), _END,               "the attempt lived on that link"),
    fail  (W, E.SHUTDOWN,      _,                      F, C.SHUTDOWN, (), _END,                "the peer hears of it before the process goes"),

    # -- Transferring
    stay  (T, E.SEND,          _OPEN & ~last,          (), (),                                 "the next chunk starts as soon as it is gathered"),
    stay  (T, E.SEND,          _OPEN & last & ~idle,   (plan.to("closed"),), (X.SEND_CLOSE,),  "the last chunk closes the plan with its totals"),
    stay  (T, E.SEND,          _OPEN & last & idle,    (plan.to("closed"), doubt.to(True)), (X.SEND_CLOSE,), "everything was started before: in doubt from here on"),
    refuse(T, E.SEND,          ~_OPEN,                                                         "the plan is closed: nothing follows the last chunk"),
    stay  (T, E.STARTABLE,     _,                      (), (X.START_PARTS,),                   "one more can start"),
    fail  (T, E.ABORT,         _,                      F, C.ABORTED, (), _END,                 "in doubt if everything was started: the receiver may have succeeded"),
    ignore(T, E.BIND,          _,                      (X.REPLY,),                             "a copy of ANNOUNCE"),
    ignore(T, E.META,          _,                      (X.REPLY,),                             "a copy of META"),
    fail  (T, E.PLAN_REFUSED,  _,                      F, C.PLAN_REFUSED, (), _END,            "a second META that differs, or lengths that disagree"),
    fail  (T, E.PEER_FAILED,   _,                      F, C.PEER_ABORTED, (doubt.to(False),), _END, "its own word: it has not succeeded, so there is no doubt"),
    go    (T, E.CONCLUDED,     all_ & doubt,           S, (doubt.to(False),), (X.CLOSE, X.REPLY), "the receiver alone decides; every rank of it has"),
    fail  (T, E.CONCLUDED,     all_ & ~doubt,          F, C.PROTOCOL, (), _END,                "concluded before everything was started (B10)"),
    stay  (T, E.CONCLUDED,     ~all_,                  (), (X.REPLY,),                         "one rank has what it needs; others have not"),
    stay  (T, E.LIVE,          _,                      (asked.to(False),), (X.ARM_SILENCE,),   "only an answer that names this attempt re-arms"),
    stay  (T, E.QUERIED,       _,                      (), (X.REPLY,),                         "a query is always answered"),
    fail  (T, E.PASSED,        _,                      F, C.ATTEMPT_OVER, (), _END,            "its conclusion is lost for good; in doubt says so"),
    fail  (T, E.SUPERSEDED,    ~doubt,                 F, C.SUPERSEDED, (), _END,              "the newer attempt may have the room while leases drain"),
    stay  (T, E.SUPERSEDED,    doubt,                  (asked.to(True),), (X.SEND_QUERY,),     "in doubt: the older attempt is asked first"),
    stay  (T, E.STARTED,       push & final,           (doubt.to(True),), (),                  "the last part is on its way"),
    stay  (T, E.STARTED,       push & ~final,          (), (),                                 "one more part is on its way"),
    stay  (T, E.STARTED,       ~push & final,          (doubt.to(True),), (X.SEND_OFFER,),     "the last part can be read from now on"),
    stay  (T, E.STARTED,       ~push & ~final,         (), (X.SEND_OFFER,),                    "one more part can be read from now on"),
    stay  (T, E.SKIPPED,       final,                  (doubt.to(True),), (),                  "everything that goes to anybody was started"),
    ignore(T, E.SKIPPED,       ~final,                 (),                                     "one part less to start"),
    stay  (T, E.OP_DONE,       push,                   (), (X.SEND_PART_DONE,),                "said only when every operation of the part is quiescent (B05)"),
    never (T, E.OP_DONE,       ~push,                                                          "operations of a pull are the receiver's"),
    fail  (T, E.OP_FAILED,     _,                      F, C.TRANSPORT_FAILED, (), _END,        "one failed handle fails the room; its siblings are waited for (A15)"),
    fail  (T, E.OP_UNRESOLVED, push,                   F, C.TRANSPORT_UNRESOLVED, (), (X.FENCE, X.SEND_ABORT, X.CLOSE), "never retried into the same memory (A18)"),
    never (T, E.OP_UNRESOLVED, ~push,                                                          "operations of a pull are the receiver's"),
    stay  (T, E.RESEND,        _,                      (), (X.SEND_FACTS,),                    "one lost notification must not hang a room (B07)"),
    stay  (T, E.ASK,           _,                      (asked.to(True),), (X.SEND_QUERY,),     "half of the silence is over: ask"),
    fail  (T, E.SILENCE,       asked | ~doubt,         F, C.SILENCE, (), _END,                 "no answer although asked"),
    stay  (T, E.SILENCE,       ~asked & doubt,         (asked.to(True),), (X.SEND_QUERY, X.ARM_SILENCE), "in doubt and not asked yet: ask first"),
    ignore(T, E.PAIRING,       _,                      (),                                     "stale: the legs have met"),
    fail  (T, E.TOTAL,         _,                      F, C.TOTAL_DEADLINE, (), _END,          "T has a deadline here (Q09)"),
    fail  (T, E.PEER_LOST,     _,                      F, C.PEER_LOST, (), _END,               "leases wait for fence(peer)"),
    fail  (T, E.SHUTDOWN,      _,                      F, C.SHUTDOWN, (), _END,                "memory stays until the reader has drained (J01)"),

    # -- Success: absorbing
    refuse(S, E.SEND,          _,                                                              "the plan was closed and delivered"),
    ignore(S, E.STARTABLE,     _,                      (),                                     "stale: everything was started"),
    ignore(S, E.ABORT,         _,                      (),                                     "too late: the request was handed over (Q03)"),
    ignore(S, E.BIND,          _,                      (X.REPLY,),                             "late copy: recognised, creates nothing"),
    ignore(S, E.META,          _,                      (X.REPLY,),                             "late copy (Q04)"),
    ignore(S, E.PLAN_REFUSED,  _,                      (),                                     "late"),
    ignore(S, E.PEER_FAILED,   _,                      (),                                     "a rank that concluded cannot fail; counted, never believed"),
    ignore(S, E.CONCLUDED,     _,                      (X.REPLY,),                             "it was not sure that we heard it"),
    ignore(S, E.LIVE,          _,                      (),                                     "late"),
    stay  (S, E.QUERIED,       _,                      (), (X.REPLY,),                         "answered for a tombstone too"),
    ignore(S, E.PASSED,        _,                      (),                                     "its conclusion is held"),
    ignore(S, E.SUPERSEDED,    _,                      (),                                     "the room is free already"),
    never (S, E.STARTED,       _,                                                              "everything was started before"),
    never (S, E.SKIPPED,       _,                                                              "everything was started before"),
    ignore(S, E.OP_DONE,       push,                   (),                                     "counted by its lease; only a receiver that lies concludes before it"),
    never (S, E.OP_DONE,       ~push,                                                          "operations of a pull are the receiver's"),
    ignore(S, E.OP_FAILED,     _,                      (),                                     "counted by its lease; only a receiver that lies concludes before it"),
    stay  (S, E.OP_UNRESOLVED, push,                   (), (X.FENCE,),                         "fenced at once, whatever the receiver said"),
    never (S, E.OP_UNRESOLVED, ~push,                                                          "operations of a pull are the receiver's"),
    ignore(S, E.RESEND,        _,                      (),                                     "stale: nothing waits for an answer"),
    ignore(S, E.ASK,           _,                      (),                                     "stale"),
    ignore(S, E.SILENCE,       _,                      (),                                     "stale"),
    ignore(S, E.PAIRING,       _,                      (),                                     "stale"),
    ignore(S, E.TOTAL,         _,                      (),                                     "stale"),
    ignore(S, E.PEER_LOST,     _,                      (),                                     "it had concluded"),
    ignore(S, E.SHUTDOWN,      _,                      (),                                     "over already"),

    # -- Failed: absorbing
    ignore(F, E.SEND,          _,                      (),                                     "the engine cannot have known yet; nothing is kept"),
    ignore(F, E.STARTABLE,     _,                      (),                                     "admission is closed; its source lease hears of it"),
    ignore(F, E.ABORT,         _,                      (),                                     "over already; the first cause holds"),
    ignore(F, E.BIND,          _,                      (X.REPLY,),                             "late copy: recognised, creates nothing"),
    ignore(F, E.META,          _,                      (X.REPLY,),                             "late: no zombie room (Q04)"),
    ignore(F, E.PLAN_REFUSED,  _,                      (),                                     "late"),
    ignore(F, E.PEER_FAILED,   _,                      (),                                     "it failed too; its ABORT is still answered"),
    ignore(F, E.CONCLUDED,     _,                      (X.REPLY,),                             "it succeeded, we were in doubt: Failed stays"),
    ignore(F, E.LIVE,          _,                      (),                                     "late"),
    stay  (F, E.QUERIED,       _,                      (), (X.REPLY,),                         "answered for a tombstone too"),
    ignore(F, E.PASSED,        _,                      (),                                     "it no longer holds the attempt: one peer less to tell"),
    ignore(F, E.SUPERSEDED,    _,                      (),                                     "the room is free already"),
    ignore(F, E.STARTED,       _,                      (),                                     "admitted just before the failure; its lease waits for it"),
    never (F, E.SKIPPED,       _,                                                              "admission is closed: nothing is looked at"),
    ignore(F, E.OP_DONE,       _,                      (),                                     "counted by its lease; done is never said for a failed room"),
    ignore(F, E.OP_FAILED,     _,                      (),                                     "counted by its lease"),
    stay  (F, E.OP_UNRESOLVED, _,                      (), (X.FENCE,),                         "fenced at once; its lease is quarantined"),
    stay  (F, E.RESEND,        _,                      (), (X.SEND_FACTS,),                    "ABORT is re-sent until it is acknowledged"),
    ignore(F, E.ASK,           _,                      (),                                     "stale"),
    ignore(F, E.SILENCE,       _,                      (),                                     "stale"),
    ignore(F, E.PAIRING,       _,                      (),                                     "stale"),
    ignore(F, E.TOTAL,         _,                      (),                                     "stale"),
    ignore(F, E.PEER_LOST,     _,                      (),                                     "over already; the fence releases what is left"),
    ignore(F, E.SHUTDOWN,      _,                      (),                                     "over already"),
)
# fmt: on

#: The sender's machine.
SENDER = Table(
    name="sender",
    states=KVPoll,
    initial=KVPoll.Bootstrapping,
    terminal=frozenset(TERMINAL),
    waiting={B: (E.TOTAL,), W: (E.TOTAL,), T: (E.TOTAL,)},
    fields=(bound, met, push, plan, doubt, asked),
    events=_EVENTS,
    rows=_ROWS,
    broken=(F, _END),
    about="The prefill side of one attempt at one rank.",
)
