"""The receiver's table: the decode side of one attempt at one rank.

Rules of this file:

1. The receiver alone decides: Success follows COMMITTED, and COMMIT is legal only when everything planned has arrived
   (``whole``) and every gate is open. Its word (CONCLUDE) makes the sender succeed.
2. Once ``whole`` it needs nothing more of the sender: a lost or silent sender no longer fails it, an ABORT does.
3. A failure is told to every sender rank at once, and its memory returns by the lease table, not by this one.
4. Failed and Success have no GO or FAIL row.

An attempt is created Bootstrapping, announced as soon as the link to every sender rank is open (LINKED), and owns no
pages until the engine hands them over (META).
"""

from __future__ import annotations

from enum import Enum

from .causes import Cause as C
from .effects import Effect as X
from .states import TERMINAL, KVPoll
from .table import ALWAYS, EventSpec, Field, Row, Source, Table, fail, go, ignore, never, refuse, stay

__all__ = ["RECEIVER", "ReceiverEvent"]


class ReceiverEvent(Enum):
    META = "META"
    GATE_OPEN = "GATE_OPEN"
    GATE_FAILED = "GATE_FAILED"
    COMMIT = "COMMIT"
    COMMITTED = "COMMITTED"
    COMMIT_FAILED = "COMMIT_FAILED"
    ABORT = "ABORT"
    BOUND = "BOUND"
    PARTS = "PARTS"
    PLAN_REFUSED = "PLAN_REFUSED"
    PEER_FAILED = "PEER_FAILED"
    NO_LEG = "NO_LEG"
    BUSY = "BUSY"
    LIVE = "LIVE"
    QUERIED = "QUERIED"
    CREDIT = "CREDIT"
    OP_DONE = "OP_DONE"
    OP_FAILED = "OP_FAILED"
    OP_UNRESOLVED = "OP_UNRESOLVED"
    DATA_MISSING = "DATA_MISSING"
    AUX_MISMATCH = "AUX_MISMATCH"
    RESEND = "RESEND"
    ASK = "ASK"
    SILENCE = "SILENCE"
    PAIRING = "PAIRING"
    GATE = "GATE"
    TOTAL = "TOTAL"
    LINKED = "LINKED"
    REFUSED = "REFUSED"
    UNREACHABLE = "UNREACHABLE"
    PEER_LOST = "PEER_LOST"
    SHUTDOWN = "SHUTDOWN"


E = ReceiverEvent
_TF = (False, True)

# Fields of the machine.
linked = Field("linked", _TF, False, "the link to every sender rank is open, so the attempt was announced")
push = Field("push", _TF, False, "the transport that we picked pushes")
meta = Field("meta", _TF, False, "the engine has handed pages over")
bound = Field("bound", _TF, False, "every sender rank said that a leg is paired with this attempt")
whole = Field(
    "whole", _TF, False, "for every planned (sender rank, layers, kind) the ranges that arrived cover [prefix, N)"
)
gated = Field("gated", _TF, False, "a local gate (staging scatter, cache restore) is still closed")
busy = Field("busy", _TF, False, "the engine is committing: it writes its pages right now")

# Arguments of events.
gates = Field("gates", _TF, False, "the engine named gates that must open before Success")
all_ = Field("all", _TF, False, "with this every sender rank (or gate) has said it")
now_whole = Field("whole_now", _TF, False, "with this everything planned has arrived")
is_push = Field("is_push", _TF, False, "the transport picked in the handshake pushes")

_EVENTS = (
    EventSpec(E.META, Source.ENGINE, (gates,), "the engine hands over destination pages and the aux slot"),
    EventSpec(E.GATE_OPEN, Source.ENGINE, (all_,), "a local step that Success waits for is done"),
    EventSpec(E.GATE_FAILED, Source.ENGINE, (), "a local step that Success waits for failed"),
    EventSpec(E.COMMIT, Source.ENGINE, (), "the engine starts to write what arrived into its pages"),
    EventSpec(E.COMMITTED, Source.ENGINE, (), "the engine's pages hold the data"),
    EventSpec(E.COMMIT_FAILED, Source.ENGINE, (), "writing into the engine's pages raised"),
    EventSpec(E.ABORT, Source.ENGINE, (), "the engine gives the request up"),
    EventSpec(E.BOUND, Source.PEER, (all_,), "a sender rank says that its leg is paired with this attempt"),
    EventSpec(E.PARTS, Source.PEER, (now_whole,), "OFFER, PART_DONE or CLOSE told something new"),
    EventSpec(E.PLAN_REFUSED, Source.PEER, (), "a part outside the plan, twice with other ranges, or totals that disagree"),
    EventSpec(E.PEER_FAILED, Source.PEER, (), "ABORT of a sender rank"),
    EventSpec(E.NO_LEG, Source.PEER, (), "a sender rank holds no equal leg for this attempt"),
    EventSpec(E.BUSY, Source.PEER, (), "the room is bound to another engine or instance"),
    EventSpec(E.LIVE, Source.PEER, (), "STATUS that names this attempt as live"),
    EventSpec(E.QUERIED, Source.PEER, (), "QUERY, or a STATUS that wants an answer"),
    EventSpec(E.CREDIT, Source.TRANSPORT, (), "the transport takes operations again"),
    EventSpec(E.OP_DONE, Source.TRANSPORT, (now_whole,), "a part was pulled, and waiting for its data raised nothing"),
    EventSpec(E.OP_FAILED, Source.TRANSPORT, (), "a pull failed and is quiescent"),
    EventSpec(E.OP_UNRESOLVED, Source.TRANSPORT, (), "a pull may still touch memory"),
    EventSpec(E.DATA_MISSING, Source.TRANSPORT, (), "a part was called done, but its bytes are not here"),
    EventSpec(E.AUX_MISMATCH, Source.TRANSPORT, (), "the aux data says that it belongs to another request"),
    EventSpec(E.RESEND, Source.CLOCK, (), "a fact has had no answer for a re-send interval"),
    EventSpec(E.ASK, Source.CLOCK, (), "half of the silence deadline"),
    EventSpec(E.SILENCE, Source.CLOCK, (), "the silence deadline"),
    EventSpec(E.PAIRING, Source.CLOCK, (), "the pairing deadline"),
    EventSpec(E.GATE, Source.CLOCK, (), "the gate deadline"),
    EventSpec(E.TOTAL, Source.CLOCK, (), "the total deadline"),
    EventSpec(E.LINKED, Source.PROCESS, (all_, is_push), "the link to a sender rank is open"),
    EventSpec(E.REFUSED, Source.PROCESS, (), "the handshake with a sender rank was refused"),
    EventSpec(E.UNREACHABLE, Source.PROCESS, (), "a sender rank could not be found or did not answer our hello"),
    EventSpec(E.PEER_LOST, Source.PROCESS, (), "a sender rank's process was declared lost, or its link is over"),
    EventSpec(E.SHUTDOWN, Source.PROCESS, (), "this process stops"),
)  # fmt: skip

B, W, T, S, F = (
    KVPoll.Bootstrapping,
    KVPoll.WaitingForInput,
    KVPoll.Transferring,
    KVPoll.Success,
    KVPoll.Failed,
)
_ = ALWAYS
_END = (X.SEND_ABORT, X.CLOSE)  # what every failure does
_READY = ~gated & now_whole

# fmt: off
_ROWS: tuple[Row, ...] = (
    # -- Bootstrapping: not announced to every sender rank, or no pages yet
    stay  (B, E.META,          ~linked & ~meta,        (meta.to(True), gated.to(gates)), (),   "decode first: the pages wait for the link"),
    go    (B, E.META,          linked & push & ~meta,  W, (meta.to(True), gated.to(gates)), (X.EXPOSE, X.SEND_META), "the buffer is open before anybody hears of it"),
    go    (B, E.META,          linked & ~push & ~meta, W, (meta.to(True), gated.to(gates)), (X.SEND_META,), "pull: the sender may offer from now on"),
    refuse(B, E.META,          meta,                                                           "pages are handed over once per attempt"),
    stay  (B, E.GATE_OPEN,     all_,                   (gated.to(False),), (),                 "the restore was faster than the link"),
    ignore(B, E.GATE_OPEN,     ~all_,                  (),                                     "other gates are still closed"),
    fail  (B, E.GATE_FAILED,   _,                      F, C.GATE_FAILED, (), _END,             "Success has become impossible"),
    refuse(B, E.COMMIT,        _,                                                              "nothing has arrived"),
    never (B, E.COMMITTED,     _,                                                              "COMMIT is refused here"),
    never (B, E.COMMIT_FAILED, _,                                                              "COMMIT is refused here"),
    fail  (B, E.ABORT,         _,                      F, C.ABORTED, (), _END,                 "addressable from create on, since ANNOUNCE came first (Q13)"),
    stay  (B, E.BOUND,         all_ & ~bound,          (bound.to(True),), (X.ARM_SILENCE,),    "from here on silence counts, not pairing"),
    ignore(B, E.BOUND,         all_ & bound,           (),                                     "a copy"),
    ignore(B, E.BOUND,         ~all_,                  (),                                     "other sender ranks have not met it yet"),
    fail  (B, E.PARTS,         _,                      F, C.PROTOCOL, (), _END,                "nothing may move before META"),
    fail  (B, E.PLAN_REFUSED,  _,                      F, C.PLAN_REFUSED, (), _END,            "the sender's plan does not fit this request"),
    fail  (B, E.PEER_FAILED,   _,                      F, C.PEER_ABORTED, (), _END,            "prefill rejected or gave up (B10); no page was lent yet"),
    fail  (B, E.NO_LEG,        _,                      F, C.NO_LEG, (), _END,                  "only one leg ever arrived, or it is of another request"),
    fail  (B, E.BUSY,          _,                      F, C.ROOM_BUSY, (), _END,               "the live holder is left alone (E01)"),
    stay  (B, E.LIVE,          _,                      (), (X.ARM_SILENCE,),                   "the sender knows this attempt"),
    stay  (B, E.QUERIED,       _,                      (), (X.REPLY,),                         "pages are still being allocated: the answer keeps the sender waiting"),
    never (B, E.CREDIT,        _,                                                              "nothing waits to be pulled"),
    never (B, E.OP_DONE,       _,                                                              "nothing is pulled before an offer"),
    never (B, E.OP_FAILED,     _,                                                              "nothing is pulled before an offer"),
    never (B, E.OP_UNRESOLVED, _,                                                              "nothing is pulled before an offer"),
    never (B, E.DATA_MISSING,  _,                                                              "nothing was called done"),
    never (B, E.AUX_MISMATCH,  _,                                                              "nothing was called done"),
    stay  (B, E.RESEND,        _,                      (), (X.SEND_FACTS,),                    "ANNOUNCE is re-sent until it is answered"),
    stay  (B, E.ASK,           _,                      (), (X.SEND_QUERY,),                    "half of the silence is over: ask"),
    fail  (B, E.SILENCE,       _,                      F, C.SILENCE, (), _END,                 "no answer although asked"),
    fail  (B, E.PAIRING,       ~bound,                 F, C.NO_LEG, (), _END,                  "B has a deadline here (Q11)"),
    ignore(B, E.PAIRING,       bound,                  (),                                     "stale: the legs have met"),
    fail  (B, E.GATE,          gated,                  F, C.GATE_TIMEOUT, (), _END,            "each gate has a deadline"),
    ignore(B, E.GATE,          ~gated,                 (),                                     "stale: the gate is open"),
    fail  (B, E.TOTAL,         _,                      F, C.TOTAL_DEADLINE, (), _END,          "nothing re-arms the total deadline"),
    stay  (B, E.LINKED,        ~all_,                  (push.to(is_push),), (X.SEND_ANNOUNCE,), "announced to this rank; other links are still being made"),
    stay  (B, E.LINKED,        all_ & ~meta,           (push.to(is_push), linked.to(True)), (X.SEND_ANNOUNCE,), "announced before pages are owned: an early ABORT is addressable"),
    go    (B, E.LINKED,        all_ & meta & is_push,  W, (push.to(is_push), linked.to(True)), (X.EXPOSE, X.SEND_META), "one message announces and says where data goes"),
    go    (B, E.LINKED,        all_ & meta & ~is_push, W, (push.to(is_push), linked.to(True)), (X.SEND_META,), "one message announces and says where data goes"),
    fail  (B, E.REFUSED,       _,                      F, C.HANDSHAKE_REFUSED, (), _END,       "for this pair only; the process lives on (Q21)"),
    fail  (B, E.UNREACHABLE,   _,                      F, C.UNREACHABLE, (), _END,             "nobody answers at that address"),
    fail  (B, E.PEER_LOST,     _,                      F, C.PEER_LOST, (), _END,               "nothing has arrived"),
    fail  (B, E.SHUTDOWN,      _,                      F, C.SHUTDOWN, (), _END,                "the peer hears of it before the process goes"),

    # -- WaitingForInput: the senders know where data goes; nothing was heard of it
    refuse(W, E.META,          _,                                                              "pages are handed over once per attempt"),
    stay  (W, E.GATE_OPEN,     all_,                   (gated.to(False),), (),                 "the restore was faster than the prefill"),
    ignore(W, E.GATE_OPEN,     ~all_,                  (),                                     "other gates are still closed"),
    fail  (W, E.GATE_FAILED,   _,                      F, C.GATE_FAILED, (), _END,             "Success has become impossible"),
    refuse(W, E.COMMIT,        _,                                                              "nothing has arrived"),
    never (W, E.COMMITTED,     _,                                                              "COMMIT is refused here"),
    never (W, E.COMMIT_FAILED, _,                                                              "COMMIT is refused here"),
    fail  (W, E.ABORT,         _,                      F, C.ABORTED, (), _END,                 "pages stay lent until the sender has drained (A01)"),
    stay  (W, E.BOUND,         all_ & ~bound,          (bound.to(True),), (X.ARM_SILENCE,),    "from here on silence counts, not pairing"),
    ignore(W, E.BOUND,         all_ & bound,           (),                                     "a copy"),
    ignore(W, E.BOUND,         ~all_,                  (),                                     "other sender ranks have not met it yet"),
    go    (W, E.PARTS,         push & _READY,          T, (whole.to(True),), (X.READY,),       "everything came in one message"),
    go    (W, E.PARTS,         push & ~_READY,         T, (whole.to(now_whole),), (X.ARM_SILENCE,), "the first part, or the closing message"),
    go    (W, E.PARTS,         ~push & _READY,         T, (whole.to(True),), (X.READY,),       "an empty plan was closed: there is nothing to pull"),
    go    (W, E.PARTS,         ~push & ~_READY,        T, (whole.to(now_whole),), (X.FETCH, X.ARM_SILENCE), "the first offer, or the closing message"),
    fail  (W, E.PLAN_REFUSED,  _,                      F, C.PLAN_REFUSED, (), _END,            "the sender's plan does not fit this request"),
    fail  (W, E.PEER_FAILED,   _,                      F, C.PEER_ABORTED, (), _END,            "prefill failed; never looks like a hand-off (B10)"),
    fail  (W, E.NO_LEG,        _,                      F, C.NO_LEG, (), _END,                  "only one leg ever arrived, or it is of another request"),
    fail  (W, E.BUSY,          _,                      F, C.ROOM_BUSY, (), _END,               "the live holder is left alone (E01)"),
    stay  (W, E.LIVE,          _,                      (), (X.ARM_SILENCE,),                   "a long prefill is not silence (C02)"),
    stay  (W, E.QUERIED,       _,                      (), (X.REPLY,),                         "a query is always answered"),
    never (W, E.CREDIT,        _,                                                              "nothing waits to be pulled"),
    never (W, E.OP_DONE,       _,                                                              "nothing is pulled before an offer"),
    never (W, E.OP_FAILED,     _,                                                              "nothing is pulled before an offer"),
    never (W, E.OP_UNRESOLVED, _,                                                              "nothing is pulled before an offer"),
    never (W, E.DATA_MISSING,  _,                                                              "nothing was called done"),
    never (W, E.AUX_MISMATCH,  _,                                                              "nothing was called done"),
    stay  (W, E.RESEND,        _,                      (), (X.SEND_FACTS,),                    "META is re-sent until it is answered"),
    stay  (W, E.ASK,           _,                      (), (X.SEND_QUERY,),                    "half of the silence is over: ask"),
    fail  (W, E.SILENCE,       _,                      F, C.SILENCE, (), _END,                 "no answer although asked"),
    fail  (W, E.PAIRING,       ~bound,                 F, C.NO_LEG, (), _END,                  "no sender rank ever met this attempt"),
    ignore(W, E.PAIRING,       bound,                  (),                                     "stale: the legs have met"),
    fail  (W, E.GATE,          gated,                  F, C.GATE_TIMEOUT, (), _END,            "each gate has a deadline (Q10)"),
    ignore(W, E.GATE,          ~gated,                 (),                                     "stale: the gate is open"),
    fail  (W, E.TOTAL,         _,                      F, C.TOTAL_DEADLINE, (), _END,          "a timeout fails the room; it frees no memory (A02)"),
    never (W, E.LINKED,        _,                                                              "every link is open already"),
    never (W, E.REFUSED,       _,                                                              "every link is open already"),
    never (W, E.UNREACHABLE,   _,                                                              "every link is open already"),
    fail  (W, E.PEER_LOST,     _,                      F, C.PEER_LOST, (), _END,               "pages wait for fence(peer)"),
    fail  (W, E.SHUTDOWN,      _,                      F, C.SHUTDOWN, (), _END,                "pages wait for the sender's drain word (Q25)"),

    # -- Transferring
    refuse(T, E.META,          _,                                                              "pages are handed over once per attempt"),
    stay  (T, E.GATE_OPEN,     all_ & whole & gated,   (gated.to(False),), (X.READY,),         "the gate was the last thing to wait for"),
    stay  (T, E.GATE_OPEN,     all_ & ~whole,          (gated.to(False),), (),                 "data is still on its way"),
    ignore(T, E.GATE_OPEN,     all_ & whole & ~gated,  (),                                     "a copy"),
    ignore(T, E.GATE_OPEN,     ~all_,                  (),                                     "other gates are still closed"),
    fail  (T, E.GATE_FAILED,   _,                      F, C.GATE_FAILED, (), _END,             "Success has become impossible"),
    stay  (T, E.COMMIT,        whole & ~gated & ~busy, (busy.to(True),), (),                   "on the engine's thread; its pages are in flight until COMMITTED"),
    refuse(T, E.COMMIT,        ~whole | gated | busy,                                          "not everything is here, a gate is closed, or it is being committed"),
    go    (T, E.COMMITTED,     busy,                   S, (busy.to(False),), (X.SEND_CONCLUDE, X.CLOSE), "the only way to Success"),
    never (T, E.COMMITTED,     ~busy,                                                          "COMMIT comes first"),
    fail  (T, E.COMMIT_FAILED, busy,                   F, C.GATE_FAILED, (busy.to(False),), _END, "the engine could not write its pages"),
    never (T, E.COMMIT_FAILED, ~busy,                                                          "COMMIT comes first"),
    fail  (T, E.ABORT,         _,                      F, C.ABORTED, (), _END,                 "pages stay lent until the sender has drained (A01)"),
    stay  (T, E.BOUND,         all_ & ~bound,          (bound.to(True),), (),                  "a reordered answer: data came first"),
    ignore(T, E.BOUND,         all_ & bound,           (),                                     "a copy"),
    ignore(T, E.BOUND,         ~all_,                  (),                                     "other sender ranks have not met it yet"),
    stay  (T, E.PARTS,         ~whole & push & _READY, (whole.to(True),), (X.READY,),          "the last part is here"),
    stay  (T, E.PARTS,         ~whole & push & ~_READY, (whole.to(now_whole),), (X.ARM_SILENCE,), "one more part, or the gate is still closed"),
    stay  (T, E.PARTS,         ~whole & ~push & _READY, (whole.to(True),), (X.READY,),         "the closing message came after the last pull"),
    stay  (T, E.PARTS,         ~whole & ~push & ~_READY, (whole.to(now_whole),), (X.FETCH, X.ARM_SILENCE), "one more offer, or the gate is still closed"),
    ignore(T, E.PARTS,         whole,                  (),                                     "a copy: everything arrived before"),
    fail  (T, E.PLAN_REFUSED,  _,                      F, C.PLAN_REFUSED, (), _END,            "ranges or totals that disagree are refused, never truncated (Q26)"),
    fail  (T, E.PEER_FAILED,   _,                      F, C.PEER_ABORTED, (), _END,            "not concluded yet: the sender's word ends it"),
    fail  (T, E.NO_LEG,        ~whole,                 F, C.NO_LEG, (), _END,                  "the sender holds nothing for this attempt any more"),
    ignore(T, E.NO_LEG,        whole,                  (),                                     "everything is here (rule 2)"),
    fail  (T, E.BUSY,          ~whole,                 F, C.ROOM_BUSY, (), _END,               "the live holder is left alone"),
    ignore(T, E.BUSY,          whole,                  (),                                     "everything is here (rule 2)"),
    stay  (T, E.LIVE,          _,                      (), (X.ARM_SILENCE,),                   "only an answer that names this attempt re-arms"),
    stay  (T, E.QUERIED,       _,                      (), (X.REPLY,),                         "a query is always answered"),
    stay  (T, E.CREDIT,        _,                      (), (X.FETCH,),                         "one more part can be pulled"),
    stay  (T, E.OP_DONE,       ~whole & _READY,        (whole.to(True),), (X.READY,),          "the last part is here"),
    stay  (T, E.OP_DONE,       ~whole & ~_READY,       (whole.to(now_whole),), (X.FETCH,),     "a credit came back; more may be pulled"),
    never (T, E.OP_DONE,       whole,                                                          "each part is pulled once"),
    fail  (T, E.OP_FAILED,     _,                      F, C.TRANSPORT_FAILED, (), _END,        "an errored array is never a success (hazard 1)"),
    fail  (T, E.OP_UNRESOLVED, _,                      F, C.TRANSPORT_UNRESOLVED, (), (X.FENCE, X.SEND_ABORT, X.CLOSE), "never retried into the same memory"),
    fail  (T, E.DATA_MISSING,  _,                      F, C.DATA_MISSING, (), _END,            "done without data is caught before commit (B10)"),
    fail  (T, E.AUX_MISMATCH,  _,                      F, C.AUX_MISMATCH, (), _END,            "another request's first token (B02)"),
    stay  (T, E.RESEND,        _,                      (), (X.SEND_FACTS,),                    "a fact is re-sent until an answer contains it"),
    stay  (T, E.ASK,           ~whole,                 (), (X.SEND_QUERY,),                    "half of the silence is over: ask"),
    ignore(T, E.ASK,           whole,                  (),                                     "nothing more is needed (rule 2)"),
    fail  (T, E.SILENCE,       ~whole,                 F, C.SILENCE, (), _END,                 "one lost notification is re-sent; silence after a question is not that (B07)"),
    ignore(T, E.SILENCE,       whole,                  (),                                     "nothing more is needed (rule 2)"),
    ignore(T, E.PAIRING,       _,                      (),                                     "stale: the sender has spoken"),
    fail  (T, E.GATE,          gated,                  F, C.GATE_TIMEOUT, (), _END,            "no endless wait behind a gate (Q10)"),
    ignore(T, E.GATE,          ~gated,                 (),                                     "stale: the gate is open"),
    fail  (T, E.TOTAL,         _,                      F, C.TOTAL_DEADLINE, (), _END,          "also when the engine never commits"),
    never (T, E.LINKED,        _,                                                              "every link is open already"),
    never (T, E.REFUSED,       _,                                                              "every link is open already"),
    never (T, E.UNREACHABLE,   _,                                                              "every link is open already"),
    fail  (T, E.PEER_LOST,     ~whole,                 F, C.PEER_LOST, (), _END,               "pages wait for fence(peer)"),
    ignore(T, E.PEER_LOST,     whole,                  (),                                     "everything is here (rule 2)"),
    fail  (T, E.SHUTDOWN,      _,                      F, C.SHUTDOWN, (), _END,                "not committed: the sender hears that we failed"),

    # -- Success: absorbing
    refuse(S, E.META,          _,                                                              "the attempt is over"),
    ignore(S, E.GATE_OPEN,     _,                      (),                                     "late"),
    ignore(S, E.GATE_FAILED,   _,                      (),                                     "late: the data was committed"),
    refuse(S, E.COMMIT,        _,                                                              "committed already"),
    never (S, E.COMMITTED,     _,                                                              "committed once"),
    never (S, E.COMMIT_FAILED, _,                                                              "committed once"),
    ignore(S, E.ABORT,         _,                      (),                                     "too late: the pages are the engine's"),
    ignore(S, E.BOUND,         _,                      (),                                     "late copy"),
    ignore(S, E.PARTS,         _,                      (),                                     "late copy; its destination refuses data (NoWriteAfterArrival)"),
    ignore(S, E.PLAN_REFUSED,  _,                      (),                                     "late"),
    ignore(S, E.PEER_FAILED,   _,                      (X.REPLY,),                             "it failed in doubt: tell it again that we concluded"),
    ignore(S, E.NO_LEG,        _,                      (),                                     "its record is gone: one peer less to tell"),
    ignore(S, E.BUSY,          _,                      (),                                     "late"),
    ignore(S, E.LIVE,          _,                      (),                                     "late"),
    stay  (S, E.QUERIED,       _,                      (), (X.REPLY,),                         "answered for a tombstone too"),
    ignore(S, E.CREDIT,        _,                      (),                                     "stale"),
    never (S, E.OP_DONE,       _,                                                              "everything had arrived"),
    never (S, E.OP_FAILED,     _,                                                              "everything had arrived"),
    never (S, E.OP_UNRESOLVED, _,                                                              "everything had arrived"),
    never (S, E.DATA_MISSING,  _,                                                              "checked before commit"),
    never (S, E.AUX_MISMATCH,  _,                                                              "checked before commit"),
    stay  (S, E.RESEND,        _,                      (), (X.SEND_FACTS,),                    "CONCLUDE is re-sent until the sender says it is over"),
    ignore(S, E.ASK,           _,                      (),                                     "stale"),
    ignore(S, E.SILENCE,       _,                      (),                                     "stale"),
    ignore(S, E.PAIRING,       _,                      (),                                     "stale"),
    ignore(S, E.GATE,          _,                      (),                                     "stale"),
    ignore(S, E.TOTAL,         _,                      (),                                     "stale"),
    never (S, E.LINKED,        _,                                                              "every link is open already"),
    never (S, E.REFUSED,       _,                                                              "every link is open already"),
    never (S, E.UNREACHABLE,   _,                                                              "every link is open already"),
    ignore(S, E.PEER_LOST,     _,                      (),                                     "it may never learn: two generals"),
    ignore(S, E.SHUTDOWN,      _,                      (),                                     "over already"),

    # -- Failed: absorbing
    ignore(F, E.META,          _,                      (),                                     "the engine cannot have known yet; its pages are handed back at once"),
    ignore(F, E.GATE_OPEN,     _,                      (),                                     "over already"),
    ignore(F, E.GATE_FAILED,   _,                      (),                                     "over already"),
    refuse(F, E.COMMIT,        _,                                                              "the room has failed; failure_exception() says why"),
    stay  (F, E.COMMITTED,     busy,                   (busy.to(False),), (),                  "failed while the engine wrote: its pages come back only now"),
    never (F, E.COMMITTED,     ~busy,                                                          "COMMIT comes first"),
    stay  (F, E.COMMIT_FAILED, busy,                   (busy.to(False),), (),                  "failed twice; the first cause holds"),
    never (F, E.COMMIT_FAILED, ~busy,                                                          "COMMIT comes first"),
    ignore(F, E.ABORT,         _,                      (),                                     "over already; the first cause holds"),
    ignore(F, E.BOUND,         _,                      (),                                     "late; ABORT is on its way to it"),
    ignore(F, E.PARTS,         _,                      (),                                     "late: nothing is started, nothing is received"),
    ignore(F, E.PLAN_REFUSED,  _,                      (),                                     "late"),
    ignore(F, E.PEER_FAILED,   _,                      (),                                     "it failed too; its ABORT is still answered"),
    ignore(F, E.NO_LEG,        _,                      (),                                     "its record is gone: one peer less to tell"),
    ignore(F, E.BUSY,          _,                      (),                                     "over already"),
    ignore(F, E.LIVE,          _,                      (),                                     "late"),
    stay  (F, E.QUERIED,       _,                      (), (X.REPLY,),                         "answered for a tombstone too"),
    ignore(F, E.CREDIT,        _,                      (),                                     "nothing new is started"),
    ignore(F, E.OP_DONE,       _,                      (),                                     "counted by its lease; the data is dropped"),
    ignore(F, E.OP_FAILED,     _,                      (),                                     "counted by its lease"),
    stay  (F, E.OP_UNRESOLVED, _,                      (), (X.FENCE,),                         "fenced at once; its lease is quarantined"),
    ignore(F, E.DATA_MISSING,  _,                      (),                                     "over already"),
    ignore(F, E.AUX_MISMATCH,  _,                      (),                                     "over already"),
    stay  (F, E.RESEND,        _,                      (), (X.SEND_FACTS,),                    "ABORT is re-sent until it is acknowledged"),
    ignore(F, E.ASK,           _,                      (),                                     "stale"),
    ignore(F, E.SILENCE,       _,                      (),                                     "stale"),
    ignore(F, E.PAIRING,       _,                      (),                                     "stale"),
    ignore(F, E.GATE,          _,                      (),                                     "stale"),
    ignore(F, E.TOTAL,         _,                      (),                                     "stale"),
    stay  (F, E.LINKED,        _,                      (), (X.SEND_ANNOUNCE, X.SEND_FACTS),    "failed before it was announced there: that rank's leg must not wait for its own deadline"),
    ignore(F, E.REFUSED,       _,                      (),                                     "over already"),
    ignore(F, E.UNREACHABLE,   _,                      (),                                     "over already"),
    ignore(F, E.PEER_LOST,     _,                      (),                                     "over already; the fence releases what is left"),
    ignore(F, E.SHUTDOWN,      _,                      (),                                     "over already"),
)
# fmt: on

#: The receiver's machine.
RECEIVER = Table(
    name="receiver",
    states=KVPoll,
    initial=KVPoll.Bootstrapping,
    terminal=frozenset(TERMINAL),
    waiting={B: (E.TOTAL,), W: (E.TOTAL,), T: (E.TOTAL,)},
    fields=(linked, push, meta, bound, whole, gated, busy),
    events=_EVENTS,
    rows=_ROWS,
    broken=(F, _END),
    about="The decode side of one attempt at one rank.",
)
