---- MODULE abort_loss ----
(* Either side aborts, and a message is lost. network=reordering aborts=1 losses=1
   Made by `kvpoll docs --write` (or `make docs`) from spec/ and model_tests/declared/. Do not edit. *)
EXTENDS Naturals, Sequences
VARIABLE w

Init == w = [
  sender |-> [state |-> "Bootstrapping", bound |-> FALSE, met |-> FALSE, push |-> FALSE, plan |-> "open", doubt |-> FALSE, asked |-> FALSE],
  copy0 |-> [state |-> "FREE", own |-> FALSE, theirs |-> FALSE, over |-> FALSE],
  s_access |-> [state |-> "FREE", own |-> FALSE, theirs |-> FALSE, over |-> FALSE],
  receiver |-> [state |-> "Bootstrapping", linked |-> FALSE, push |-> FALSE, meta |-> FALSE, bound |-> FALSE, whole |-> FALSE, gated |-> FALSE, busy |-> FALSE],
  buffer |-> [state |-> "FREE", own |-> FALSE, theirs |-> FALSE, over |-> FALSE],
  pages |-> [state |-> "FREE", own |-> FALSE, theirs |-> FALSE, over |-> FALSE],
  r_access |-> [state |-> "HELD", own |-> FALSE, theirs |-> FALSE, over |-> FALSE],
  op0 |-> 0, \* the operation that moves this part
  s_peer |-> 0, \* an attempt is paired with this leg
  s_tomb |-> 0, \* the attempt was over before it was paired: nothing pairs it any more
  s_meta |-> 0, \* the receiver said where data goes
  s_failed |-> 0, \* the receiver said that it failed
  s_concluded |-> 0, \* the receiver said that it committed
  s_acked |-> 0, \* the receiver answered our ABORT
  s_drained |-> 0, \* nothing of the receiver can touch our memory
  s_total |-> 0, \* the receiver holds our CLOSE
  s_sent |-> 0, \* parts that the engine handed over
  s_seen |-> 0, \* parts that the receiver holds, as far as it said
  s_offered0 |-> 0, \* this part can be pulled
  r_link |-> 0, \* the link to the sender is open
  r_meta |-> 0, \* the engine handed pages over
  r_bound |-> 0, \* the sender said that a leg is paired with this attempt
  r_total |-> 0, \* the sender closed its plan
  r_failed |-> 0, \* the sender said that it failed
  r_acked |-> 0, \* the sender answered our ABORT
  r_drained |-> 0, \* nothing of the sender can touch our memory
  r_over |-> 0, \* the sender is over, so it needs no conclusion
  r_saw_announce |-> 0, \* the sender holds our ANNOUNCE
  r_saw_meta |-> 0, \* the sender holds our META
  r_saw_over |-> 0, \* the sender holds our CONCLUDE or ABORT
  r_ready |-> 0, \* the engine was told that it can commit
  r_heard0 |-> 0, \* the sender told us of this part
  aborts |-> 1, \* how often it may still happen
  losses |-> 1, \* how often it may still happen
  to_sender |-> {},
  to_receiver |-> {},
  broken |-> ""
]

\* An invariant that is broken inside a step is noted; the first one stays.
Note(v, name) == [v EXCEPT !.broken = IF @ = "" THEN name ELSE @]

sender_does_SEND_CLOSE(v) ==
  IF v.s_peer # 0
    THEN [v EXCEPT !.to_receiver = @ \union {[kind |-> "CLOSE"]}]
    ELSE v

\* the engine hands over a chunk
sender_SEND(v, last, rows, idle) ==
  LET m == v.sender IN
  CASE m.state = "Bootstrapping" /\ (m.plan = "open" /\ last) /\ rows -> \* STAY: prefill first: the parts wait, gathered, for META
         [v EXCEPT !.sender.plan = "closed"]
    [] m.state = "Bootstrapping" /\ (m.plan = "open" /\ last) /\ ~rows -> \* STAY: this rank owns no rows; its plan closes by message once bound
         [v EXCEPT !.sender.plan = "empty"]
    [] m.state = "Bootstrapping" /\ m.plan = "open" /\ ~last -> \* STAY: chunked prefill may run ahead of the receiver
         v
    [] m.state = "Bootstrapping" /\ m.plan # "open" -> \* REFUSE: the plan is closed: nothing follows the last chunk (Q15)
         Note(v, "EngineObeys")
    [] m.state = "WaitingForInput" /\ (m.plan = "open" /\ ~last) /\ rows -> \* STAY: a chunk starts as soon as it is gathered
         v
    [] m.state = "WaitingForInput" /\ (m.plan = "open" /\ ~last) /\ ~rows -> \* IGNORE: a chunk in which this rank owns no rows
         v
    [] m.state = "WaitingForInput" /\ ((m.plan = "open" /\ last) /\ rows) /\ ~idle -> \* STAY: the last chunk closes the plan with its totals
         sender_does_SEND_CLOSE([v EXCEPT !.sender.plan = "closed"])
    [] m.state = "WaitingForInput" /\ ((m.plan = "open" /\ last) /\ rows) /\ idle -> \* GO: every part went to nobody: as good as an empty plan
         sender_does_SEND_CLOSE([v EXCEPT !.sender.plan = "closed", !.sender.doubt = TRUE, !.sender.state = "Transferring"])
    [] m.state = "WaitingForInput" /\ (m.plan = "open" /\ last) /\ ~rows -> \* GO: an empty plan is in doubt from its closing message on
         sender_does_SEND_CLOSE([v EXCEPT !.sender.plan = "empty", !.sender.doubt = TRUE, !.sender.state = "Transferring"])
    [] m.state = "WaitingForInput" /\ m.plan # "open" -> \* REFUSE: the plan is closed: nothing follows the last chunk
         Note(v, "EngineObeys")
    [] m.state = "Transferring" /\ m.plan = "open" /\ ~last -> \* STAY: the next chunk starts as soon as it is gathered
         v
    [] m.state = "Transferring" /\ (m.plan = "open" /\ last) /\ ~idle -> \* STAY: the last chunk closes the plan with its totals
         sender_does_SEND_CLOSE([v EXCEPT !.sender.plan = "closed"])
    [] m.state = "Transferring" /\ (m.plan = "open" /\ last) /\ idle -> \* STAY: everything was started before: in doubt from here on
         sender_does_SEND_CLOSE([v EXCEPT !.sender.plan = "closed", !.sender.doubt = TRUE])
    [] m.state = "Transferring" /\ m.plan # "open" -> \* REFUSE: the plan is closed: nothing follows the last chunk
         Note(v, "EngineObeys")
    [] m.state = "Success" -> \* REFUSE: the plan was closed and delivered
         Note(v, "EngineObeys")
    [] m.state = "Failed" -> \* IGNORE: the engine cannot have known yet; nothing is kept
         v

\* the memory is lent to the room
copy0_TAKE(v) ==
  LET m == v.copy0 IN
  CASE m.state = "FREE" -> \* GO: lent
         [v EXCEPT !.copy0.state = "HELD"]
    [] m.state = "HELD" -> \* NEVER: lent once
         Note(v, "TotalHandlers")
    [] m.state = "IN_FLIGHT" -> \* NEVER: lent once
         Note(v, "TotalHandlers")
    [] m.state = "DRAINING" -> \* NEVER: lent once
         Note(v, "TotalHandlers")
    [] m.state = "QUARANTINED" -> \* NEVER: lent once
         Note(v, "TotalHandlers")
    [] m.state = "HANDED" -> \* NEVER: not picked yet
         Note(v, "TotalHandlers")

\* an operation of ours on it was admitted to a queue
copy0_START(v) ==
  LET m == v.copy0 IN
  CASE m.state = "FREE" -> \* NEVER: nothing starts on memory that is not lent
         Note(v, "TotalHandlers")
    [] m.state = "HELD" -> \* GO: from admission on it counts as started (CountExact)
         [v EXCEPT !.copy0.own = TRUE, !.copy0.state = "IN_FLIGHT"]
    [] m.state = "IN_FLIGHT" -> \* STAY: one more operation
         [v EXCEPT !.copy0.own = TRUE]
    [] m.state = "DRAINING" -> \* NEVER: admission is closed
         Note(v, "TotalHandlers")
    [] m.state = "QUARANTINED" -> \* NEVER: admission is closed by the same failure
         Note(v, "TotalHandlers")
    [] m.state = "HANDED" -> \* NEVER: admission is closed
         Note(v, "TotalHandlers")

\* started - quiescent of our operations on it is zero (fenced counts as quiescent)
copy0_QUIET(v) ==
  LET m == v.copy0 IN
  CASE m.state = "FREE" -> \* IGNORE: late
         v
    [] m.state = "HELD" -> \* IGNORE: nothing was in flight
         v
    [] m.state = "IN_FLIGHT" /\ m.own /\ ~m.theirs -> \* GO: quiescent
         [v EXCEPT !.copy0.own = FALSE, !.copy0.state = "HELD"]
    [] m.state = "IN_FLIGHT" /\ m.own /\ m.theirs -> \* STAY: the peer may still touch it
         [v EXCEPT !.copy0.own = FALSE]
    [] m.state = "IN_FLIGHT" /\ ~m.own -> \* IGNORE: nothing of ours was in flight
         v
    [] m.state = "DRAINING" /\ m.own /\ ~m.theirs -> \* GO: the end that starts operations has none left
         [v EXCEPT !.copy0.own = FALSE, !.copy0.theirs = FALSE, !.copy0.over = FALSE, !.copy0.state = "HANDED"]
    [] m.state = "DRAINING" /\ m.own /\ m.theirs -> \* STAY: the peer may still touch it
         [v EXCEPT !.copy0.own = FALSE]
    [] m.state = "DRAINING" /\ ~m.own -> \* IGNORE: nothing of ours was in flight
         v
    [] m.state = "QUARANTINED" /\ (m.own /\ ~m.theirs) /\ m.over -> \* GO: fenced
         [v EXCEPT !.copy0.own = FALSE, !.copy0.theirs = FALSE, !.copy0.over = FALSE, !.copy0.state = "HANDED"]
    [] m.state = "QUARANTINED" /\ (m.own /\ ~m.theirs) /\ ~m.over -> \* GO: fenced before the room was closed
         [v EXCEPT !.copy0.own = FALSE, !.copy0.state = "HELD"]
    [] m.state = "QUARANTINED" /\ m.own /\ m.theirs -> \* STAY: the peer may still touch it
         [v EXCEPT !.copy0.own = FALSE]
    [] m.state = "QUARANTINED" /\ ~m.own -> \* IGNORE: nothing of ours was in flight
         v
    [] m.state = "HANDED" -> \* IGNORE: late
         v

\* the peer was told how to reach it
copy0_EXPOSE(v) ==
  LET m == v.copy0 IN
  CASE m.state = "FREE" -> \* NEVER: nothing is exposed that is not lent
         Note(v, "TotalHandlers")
    [] m.state = "HELD" -> \* GO: from here on only the peer's word or a fence frees it
         [v EXCEPT !.copy0.theirs = TRUE, !.copy0.state = "IN_FLIGHT"]
    [] m.state = "IN_FLIGHT" -> \* STAY: one more peer
         [v EXCEPT !.copy0.theirs = TRUE]
    [] m.state = "DRAINING" -> \* NEVER: admission is closed
         Note(v, "TotalHandlers")
    [] m.state = "QUARANTINED" -> \* NEVER: admission is closed by the same failure
         Note(v, "TotalHandlers")
    [] m.state = "HANDED" -> \* NEVER: admission is closed
         Note(v, "TotalHandlers")

sender_does_SEND_OFFER_0(v) ==
  [v EXCEPT !.to_receiver = @ \union {[kind |-> "PART0"]}]

\* a part was admitted to the transport (push) or offered (pull)
sender_STARTED_0(v, final) ==
  LET m == v.sender IN
  CASE m.state = "Bootstrapping" -> \* NEVER: parts start only after META of every rank
         Note(v, "TotalHandlers")
    [] m.state = "WaitingForInput" /\ m.push /\ final -> \* GO: the only part is on its way
         [v EXCEPT !.sender.doubt = TRUE, !.sender.state = "Transferring"]
    [] m.state = "WaitingForInput" /\ m.push /\ ~final -> \* GO: the first part is on its way
         [v EXCEPT !.sender.state = "Transferring"]
    [] m.state = "WaitingForInput" /\ ~m.push /\ final -> \* GO: the only part can be read from now on
         sender_does_SEND_OFFER_0([v EXCEPT !.sender.doubt = TRUE, !.sender.state = "Transferring"])
    [] m.state = "WaitingForInput" /\ ~m.push /\ ~final -> \* GO: the first part can be read from now on
         sender_does_SEND_OFFER_0([v EXCEPT !.sender.state = "Transferring"])
    [] m.state = "Transferring" /\ m.push /\ final -> \* STAY: the last part is on its way
         [v EXCEPT !.sender.doubt = TRUE]
    [] m.state = "Transferring" /\ m.push /\ ~final -> \* STAY: one more part is on its way
         v
    [] m.state = "Transferring" /\ ~m.push /\ final -> \* STAY: the last part can be read from now on
         sender_does_SEND_OFFER_0([v EXCEPT !.sender.doubt = TRUE])
    [] m.state = "Transferring" /\ ~m.push /\ ~final -> \* STAY: one more part can be read from now on
         sender_does_SEND_OFFER_0(v)
    [] m.state = "Success" -> \* NEVER: everything was started before
         Note(v, "TotalHandlers")
    [] m.state = "Failed" -> \* IGNORE: admitted just before the failure; its lease waits for it
         v

s_start_parts(v) ==
  IF ~(v.sender.state \in {"Success", "Failed"}) /\ 0 < v.s_sent /\ v.s_offered0 = 0
    THEN LET v1 == [v EXCEPT !.s_offered0 = 1]
             v2 == IF ~(v1.copy0.state \in {"FREE", "HANDED"})
                     THEN copy0_EXPOSE(v1)
                     ELSE v1
         IN  sender_STARTED_0(v2, v2.sender.plan # "open" /\ (v2.s_sent < 1 \/ v2.s_offered0 # 0))
    ELSE v

sender_does_START_PARTS(v) ==
  s_start_parts(v)

\* a part was gathered, or a credit came back
sender_STARTABLE(v) ==
  LET m == v.sender IN
  CASE m.state = "Bootstrapping" -> \* IGNORE: gathered; it waits for META
         v
    [] m.state = "WaitingForInput" -> \* STAY: read only after the device work that writes it is finished (B01)
         sender_does_START_PARTS(v)
    [] m.state = "Transferring" -> \* STAY: one more can start
         sender_does_START_PARTS(v)
    [] m.state = "Success" -> \* IGNORE: stale: everything was started
         v
    [] m.state = "Failed" -> \* IGNORE: admission is closed; its source lease hears of it
         v

s_send_facts(v) ==
  IF v.s_peer # 0 /\ (IF v.sender.state = "Failed" THEN v.s_acked = 0 ELSE v.s_meta # 0 /\ (v.s_seen < ((IF v.s_offered0 # 0 THEN 1 ELSE 0)) \/ (v.sender.plan # "open" /\ v.sender.state \in {"WaitingForInput", "Transferring"} /\ v.s_total = 0)) /\ ~(v.sender.state = "Success"))
    THEN IF v.sender.state \in {"Success", "Failed"}
           THEN LET v1 == IF v.s_access.state = "HANDED"
                            THEN v
                            ELSE v
                IN  [v1 EXCEPT !.to_receiver = @ \union {[kind |-> "OVER", success |-> (IF v1.sender.state = "Success" THEN 1 ELSE 0), drain |-> (IF v1.s_access.state = "HANDED" THEN 1 ELSE (IF v1.s_access.state = "QUARANTINED" THEN 2 ELSE 0)), heard |-> (IF v1.s_failed # 0 \/ v1.s_concluded # 0 THEN 1 ELSE 0), answer |-> 1]}]
           ELSE [v EXCEPT !.to_receiver = @ \union {[kind |-> "LIVE", told0 |-> (IF v.s_offered0 # 0 THEN 1 ELSE 0), closed |-> (IF v.sender.plan # "open" /\ v.sender.state \in {"WaitingForInput", "Transferring"} THEN 1 ELSE 0), meta |-> v.s_meta, answer |-> 1]}]
    ELSE v

sender_does_SEND_FACTS(v) ==
  s_send_facts(v)

\* a fact has had no answer for a re-send interval
sender_RESEND(v) ==
  LET m == v.sender IN
  CASE m.state = "Bootstrapping" -> \* NEVER: nothing waits for an answer: the receiver re-sends ANNOUNCE until it hears of us
         Note(v, "TotalHandlers")
    [] m.state = "WaitingForInput" -> \* STAY: a fact is re-sent until an answer contains it
         sender_does_SEND_FACTS(v)
    [] m.state = "Transferring" -> \* STAY: one lost notification must not hang a room (B07)
         sender_does_SEND_FACTS(v)
    [] m.state = "Success" -> \* IGNORE: stale: nothing waits for an answer
         v
    [] m.state = "Failed" -> \* STAY: ABORT is re-sent until it is acknowledged
         sender_does_SEND_FACTS(v)

s_send_abort(v) ==
  IF v.s_peer # 0
    THEN [v EXCEPT !.to_receiver = @ \union {[kind |-> "ABORT"]}]
    ELSE v

sender_does_SEND_ABORT(v) ==
  s_send_abort(v)

\* the room is over
copy0_CLOSE(v) ==
  LET m == v.copy0 IN
  CASE m.state = "FREE" -> \* IGNORE: late
         v
    [] m.state = "HELD" -> \* GO: never touched: back at once
         [v EXCEPT !.copy0.state = "HANDED"]
    [] m.state = "IN_FLIGHT" -> \* GO: the room is over, the memory is not (A01, A02)
         [v EXCEPT !.copy0.over = TRUE, !.copy0.state = "DRAINING"]
    [] m.state = "DRAINING" -> \* IGNORE: closed already
         v
    [] m.state = "QUARANTINED" -> \* STAY: the room is over
         [v EXCEPT !.copy0.over = TRUE]
    [] m.state = "HANDED" -> \* IGNORE: closed already
         v

s_answer_abort(v) ==
  IF v.s_failed # 0 /\ v.sender.state \in {"Success", "Failed"}
    THEN LET v2 == IF v.s_access.state = "HANDED"
                     THEN IF TRUE
                            THEN LET v1 == v
                                 IN  [v1 EXCEPT !.to_receiver = @ \union {[kind |-> "ABORT_ACK", quarantined |-> 0]}]
                            ELSE v
                     ELSE v
         IN  IF v2.s_access.state = "QUARANTINED"
               THEN [v2 EXCEPT !.to_receiver = @ \union {[kind |-> "ABORT_ACK", quarantined |-> 1]}]
               ELSE v2
    ELSE v

s_access_does_HAND_BACK(v) ==
  s_answer_abort(v)

\* the room is over
s_access_CLOSE(v) ==
  LET m == v.s_access IN
  CASE m.state = "FREE" -> \* IGNORE: late
         v
    [] m.state = "HELD" -> \* GO: never touched: back at once
         s_access_does_HAND_BACK([v EXCEPT !.s_access.state = "HANDED"])
    [] m.state = "IN_FLIGHT" -> \* GO: the room is over, the memory is not (A01, A02)
         [v EXCEPT !.s_access.over = TRUE, !.s_access.state = "DRAINING"]
    [] m.state = "DRAINING" -> \* IGNORE: closed already
         v
    [] m.state = "QUARANTINED" -> \* STAY: the room is over
         [v EXCEPT !.s_access.over = TRUE]
    [] m.state = "HANDED" -> \* IGNORE: closed already
         v

\* every peer that could touch it has drained or is fenced
copy0_DRAINED(v) ==
  LET m == v.copy0 IN
  CASE m.state = "FREE" -> \* IGNORE: late: the word is given again when asked again
         v
    [] m.state = "HELD" -> \* IGNORE: nothing was exposed
         v
    [] m.state = "IN_FLIGHT" /\ m.theirs /\ ~m.own -> \* GO: every planned part arrived, or the peer gave it up
         [v EXCEPT !.copy0.theirs = FALSE, !.copy0.state = "HELD"]
    [] m.state = "IN_FLIGHT" /\ m.theirs /\ m.own -> \* STAY: our own operation may still touch it
         [v EXCEPT !.copy0.theirs = FALSE]
    [] m.state = "IN_FLIGHT" /\ ~m.theirs -> \* IGNORE: nothing was exposed
         v
    [] m.state = "DRAINING" /\ m.theirs /\ ~m.own -> \* GO: its drain word, or a fence (A03)
         [v EXCEPT !.copy0.own = FALSE, !.copy0.theirs = FALSE, !.copy0.over = FALSE, !.copy0.state = "HANDED"]
    [] m.state = "DRAINING" /\ m.theirs /\ m.own -> \* STAY: our own operation may still touch it (A15)
         [v EXCEPT !.copy0.theirs = FALSE]
    [] m.state = "DRAINING" /\ ~m.theirs -> \* IGNORE: nothing was exposed
         v
    [] m.state = "QUARANTINED" /\ (m.theirs /\ ~m.own) /\ m.over -> \* GO: fenced, or drained after all
         [v EXCEPT !.copy0.own = FALSE, !.copy0.theirs = FALSE, !.copy0.over = FALSE, !.copy0.state = "HANDED"]
    [] m.state = "QUARANTINED" /\ (m.theirs /\ ~m.own) /\ ~m.over -> \* GO: fenced before the room was closed
         [v EXCEPT !.copy0.theirs = FALSE, !.copy0.state = "HELD"]
    [] m.state = "QUARANTINED" /\ m.theirs /\ m.own -> \* STAY: our own operation is unresolved
         [v EXCEPT !.copy0.theirs = FALSE]
    [] m.state = "QUARANTINED" /\ ~m.theirs -> \* IGNORE: nothing was exposed
         v
    [] m.state = "HANDED" -> \* IGNORE: late
         v

s_drain(v) ==
  IF v.s_peer # 0 /\ v.s_drained # 0
    THEN IF ~(v.copy0.state \in {"FREE", "HANDED"})
           THEN copy0_DRAINED(v)
           ELSE v
    ELSE v

s_close(v) ==
  LET v1 == IF ~(v.copy0.state \in {"FREE", "HANDED"})
              THEN copy0_CLOSE(v)
              ELSE v
      v2 == IF v1.s_peer # 0
              THEN s_access_CLOSE(v1)
              ELSE v1
  IN  s_drain(v2)

sender_does_CLOSE(v) ==
  s_close(v)

\* the pairing deadline
sender_PAIRING(v) ==
  LET m == v.sender IN
  CASE m.state = "Bootstrapping" /\ ~m.met -> \* FAIL: a leg of the other engine never arrived, at one rank or at all (HalfOpenEnds)
         sender_does_CLOSE(sender_does_SEND_ABORT([v EXCEPT !.sender.state = "Failed"]))
    [] m.state = "Bootstrapping" /\ m.met -> \* IGNORE: stale: the legs have met
         v
    [] m.state = "WaitingForInput" -> \* IGNORE: stale: the legs have met
         v
    [] m.state = "Transferring" -> \* IGNORE: stale: the legs have met
         v
    [] m.state = "Success" -> \* IGNORE: stale
         v
    [] m.state = "Failed" -> \* IGNORE: stale
         v

\* the engine gives the request up
sender_ABORT(v) ==
  LET m == v.sender IN
  CASE m.state = "Bootstrapping" -> \* FAIL: the peer is told at once; it must not wait for its own deadline (Q08)
         sender_does_CLOSE(sender_does_SEND_ABORT([v EXCEPT !.sender.state = "Failed"]))
    [] m.state = "WaitingForInput" -> \* FAIL: nothing was started: this rank may fail alone
         sender_does_CLOSE(sender_does_SEND_ABORT([v EXCEPT !.sender.state = "Failed"]))
    [] m.state = "Transferring" -> \* FAIL: in doubt if everything was started: the receiver may have succeeded
         sender_does_CLOSE(sender_does_SEND_ABORT([v EXCEPT !.sender.state = "Failed"]))
    [] m.state = "Success" -> \* IGNORE: too late: the request was handed over (Q03)
         v
    [] m.state = "Failed" -> \* IGNORE: over already; the first cause holds
         v

receiver_does_SEND_ANNOUNCE(v) ==
  [v EXCEPT !.to_sender = @ \union {[kind |-> "ANNOUNCE"]}]

\* the peer was told how to reach it
buffer_EXPOSE(v) ==
  LET m == v.buffer IN
  CASE m.state = "FREE" -> \* NEVER: nothing is exposed that is not lent
         Note(v, "TotalHandlers")
    [] m.state = "HELD" -> \* GO: from here on only the peer's word or a fence frees it
         [v EXCEPT !.buffer.theirs = TRUE, !.buffer.state = "IN_FLIGHT"]
    [] m.state = "IN_FLIGHT" -> \* STAY: one more peer
         [v EXCEPT !.buffer.theirs = TRUE]
    [] m.state = "DRAINING" -> \* NEVER: admission is closed
         Note(v, "TotalHandlers")
    [] m.state = "QUARANTINED" -> \* NEVER: admission is closed by the same failure
         Note(v, "TotalHandlers")
    [] m.state = "HANDED" -> \* NEVER: admission is closed
         Note(v, "TotalHandlers")

receiver_does_EXPOSE(v) ==
  IF ~(v.buffer.state \in {"FREE", "HANDED"})
    THEN buffer_EXPOSE(v)
    ELSE v

receiver_does_SEND_META(v) ==
  [v EXCEPT !.to_sender = @ \union {[kind |-> "META"]}]

r_send_facts(v) ==
  IF v.r_link # 0 /\ (IF v.receiver.state = "Failed" THEN v.r_acked = 0 \/ (v.r_acked # 0 /\ v.r_drained = 0 /\ (v.buffer.state = "QUARANTINED" \/ v.pages.state = "QUARANTINED")) ELSE (IF v.receiver.state = "Success" THEN (v.r_over = 0 /\ v.r_saw_over = 0) \/ (v.r_acked # 0 /\ v.r_drained = 0 /\ (v.buffer.state = "QUARANTINED" \/ v.pages.state = "QUARANTINED")) ELSE v.receiver.whole # TRUE /\ ((v.r_saw_announce = 0 /\ v.r_bound = 0) \/ (v.r_meta # 0 /\ v.receiver.linked = TRUE /\ ~(v.r_saw_meta # 0 \/ v.r_total # 0 \/ v.r_heard0 # 0)))))
    THEN IF v.receiver.state \in {"Success", "Failed"}
           THEN LET v1 == IF v.r_access.state = "HANDED" \/ v.receiver.state = "Success"
                            THEN IF ~(v.op0 = 1 \/ v.op0 = 4 \/ v.op0 = 5) THEN v ELSE Note(v, "AckMeansQuiescent")
                            ELSE v
                IN  [v1 EXCEPT !.to_sender = @ \union {[kind |-> "OVER", success |-> (IF v1.receiver.state = "Success" THEN 1 ELSE 0), drain |-> (IF v1.r_access.state = "HANDED" THEN 1 ELSE (IF v1.r_access.state = "QUARANTINED" THEN 2 ELSE 0)), answer |-> 1]}]
           ELSE [v EXCEPT !.to_sender = @ \union {[kind |-> "LIVE", meta |-> (IF v.r_meta # 0 /\ v.receiver.linked = TRUE THEN 1 ELSE 0), parts |-> (v.r_heard0), total |-> v.r_total, answer |-> 1]}]
    ELSE v

receiver_does_SEND_FACTS(v) ==
  r_send_facts(v)

\* the link to a sender rank is open
receiver_LINKED(v, all, is_push) ==
  LET m == v.receiver IN
  CASE m.state = "Bootstrapping" /\ ~all -> \* STAY: announced to this rank; other links are still being made
         receiver_does_SEND_ANNOUNCE([v EXCEPT !.receiver.push = is_push])
    [] m.state = "Bootstrapping" /\ all /\ ~m.meta -> \* STAY: announced before pages are owned: an early ABORT is addressable
         receiver_does_SEND_ANNOUNCE([v EXCEPT !.receiver.push = is_push, !.receiver.linked = TRUE])
    [] m.state = "Bootstrapping" /\ (all /\ m.meta) /\ is_push -> \* GO: one message announces and says where data goes
         receiver_does_SEND_META(receiver_does_EXPOSE([v EXCEPT !.receiver.push = is_push, !.receiver.linked = TRUE, !.receiver.state = "WaitingForInput"]))
    [] m.state = "Bootstrapping" /\ (all /\ m.meta) /\ ~is_push -> \* GO: one message announces and says where data goes
         receiver_does_SEND_META([v EXCEPT !.receiver.push = is_push, !.receiver.linked = TRUE, !.receiver.state = "WaitingForInput"])
    [] m.state = "WaitingForInput" -> \* NEVER: every link is open already
         Note(v, "TotalHandlers")
    [] m.state = "Transferring" -> \* NEVER: every link is open already
         Note(v, "TotalHandlers")
    [] m.state = "Success" -> \* NEVER: every link is open already
         Note(v, "TotalHandlers")
    [] m.state = "Failed" -> \* STAY: failed before it was announced there: that rank's leg must not wait for its own deadline
         receiver_does_SEND_FACTS(receiver_does_SEND_ANNOUNCE(v))

\* the memory is lent to the room
pages_TAKE(v) ==
  LET m == v.pages IN
  CASE m.state = "FREE" -> \* GO: lent
         [v EXCEPT !.pages.state = "HELD"]
    [] m.state = "HELD" -> \* NEVER: lent once
         Note(v, "TotalHandlers")
    [] m.state = "IN_FLIGHT" -> \* NEVER: lent once
         Note(v, "TotalHandlers")
    [] m.state = "DRAINING" -> \* NEVER: lent once
         Note(v, "TotalHandlers")
    [] m.state = "QUARANTINED" -> \* NEVER: lent once
         Note(v, "TotalHandlers")
    [] m.state = "HANDED" -> \* NEVER: not picked yet
         Note(v, "TotalHandlers")

\* the memory is lent to the room
buffer_TAKE(v) ==
  LET m == v.buffer IN
  CASE m.state = "FREE" -> \* GO: lent
         [v EXCEPT !.buffer.state = "HELD"]
    [] m.state = "HELD" -> \* NEVER: lent once
         Note(v, "TotalHandlers")
    [] m.state = "IN_FLIGHT" -> \* NEVER: lent once
         Note(v, "TotalHandlers")
    [] m.state = "DRAINING" -> \* NEVER: lent once
         Note(v, "TotalHandlers")
    [] m.state = "QUARANTINED" -> \* NEVER: lent once
         Note(v, "TotalHandlers")
    [] m.state = "HANDED" -> \* NEVER: not picked yet
         Note(v, "TotalHandlers")

\* the engine hands over destination pages and the aux slot
receiver_META(v, gates) ==
  LET m == v.receiver IN
  CASE m.state = "Bootstrapping" /\ ~m.linked /\ ~m.meta -> \* STAY: decode first: the pages wait for the link
         [v EXCEPT !.receiver.meta = TRUE, !.receiver.gated = gates]
    [] m.state = "Bootstrapping" /\ (m.linked /\ m.push) /\ ~m.meta -> \* GO: the buffer is open before anybody hears of it
         receiver_does_SEND_META(receiver_does_EXPOSE([v EXCEPT !.receiver.meta = TRUE, !.receiver.gated = gates, !.receiver.state = "WaitingForInput"]))
    [] m.state = "Bootstrapping" /\ (m.linked /\ ~m.push) /\ ~m.meta -> \* GO: pull: the sender may offer from now on
         receiver_does_SEND_META([v EXCEPT !.receiver.meta = TRUE, !.receiver.gated = gates, !.receiver.state = "WaitingForInput"])
    [] m.state = "Bootstrapping" /\ m.meta -> \* REFUSE: pages are handed over once per attempt
         Note(v, "EngineObeys")
    [] m.state = "WaitingForInput" -> \* REFUSE: pages are handed over once per attempt
         Note(v, "EngineObeys")
    [] m.state = "Transferring" -> \* REFUSE: pages are handed over once per attempt
         Note(v, "EngineObeys")
    [] m.state = "Success" -> \* REFUSE: the attempt is over
         Note(v, "EngineObeys")
    [] m.state = "Failed" -> \* IGNORE: the engine cannot have known yet; its pages are handed back at once
         v

\* the room is over
pages_CLOSE(v) ==
  LET m == v.pages IN
  CASE m.state = "FREE" -> \* IGNORE: late
         v
    [] m.state = "HELD" -> \* GO: never touched: back at once
         [v EXCEPT !.pages.state = "HANDED"]
    [] m.state = "IN_FLIGHT" -> \* GO: the room is over, the memory is not (A01, A02)
         [v EXCEPT !.pages.over = TRUE, !.pages.state = "DRAINING"]
    [] m.state = "DRAINING" -> \* IGNORE: closed already
         v
    [] m.state = "QUARANTINED" -> \* STAY: the room is over
         [v EXCEPT !.pages.over = TRUE]
    [] m.state = "HANDED" -> \* IGNORE: closed already
         v

\* the room is over
buffer_CLOSE(v) ==
  LET m == v.buffer IN
  CASE m.state = "FREE" -> \* IGNORE: late
         v
    [] m.state = "HELD" -> \* GO: never touched: back at once
         [v EXCEPT !.buffer.state = "HANDED"]
    [] m.state = "IN_FLIGHT" -> \* GO: the room is over, the memory is not (A01, A02)
         [v EXCEPT !.buffer.over = TRUE, !.buffer.state = "DRAINING"]
    [] m.state = "DRAINING" -> \* IGNORE: closed already
         v
    [] m.state = "QUARANTINED" -> \* STAY: the room is over
         [v EXCEPT !.buffer.over = TRUE]
    [] m.state = "HANDED" -> \* IGNORE: closed already
         v

\* the engine starts to write what arrived into its pages
receiver_COMMIT(v) ==
  LET m == v.receiver IN
  CASE m.state = "Bootstrapping" -> \* REFUSE: nothing has arrived
         Note(v, "EngineObeys")
    [] m.state = "WaitingForInput" -> \* REFUSE: nothing has arrived
         Note(v, "EngineObeys")
    [] m.state = "Transferring" /\ (m.whole /\ ~m.gated) /\ ~m.busy -> \* STAY: on the engine's thread; its pages are in flight until COMMITTED
         [v EXCEPT !.receiver.busy = TRUE]
    [] m.state = "Transferring" /\ ((~m.whole \/ m.gated) \/ m.busy) -> \* REFUSE: not everything is here, a gate is closed, or it is being committed
         Note(v, "EngineObeys")
    [] m.state = "Success" -> \* REFUSE: committed already
         Note(v, "EngineObeys")
    [] m.state = "Failed" -> \* REFUSE: the room has failed; failure_exception() says why
         Note(v, "EngineObeys")

\* an operation of ours on it was admitted to a queue
buffer_START(v) ==
  LET m == v.buffer IN
  CASE m.state = "FREE" -> \* NEVER: nothing starts on memory that is not lent
         Note(v, "TotalHandlers")
    [] m.state = "HELD" -> \* GO: from admission on it counts as started (CountExact)
         [v EXCEPT !.buffer.own = TRUE, !.buffer.state = "IN_FLIGHT"]
    [] m.state = "IN_FLIGHT" -> \* STAY: one more operation
         [v EXCEPT !.buffer.own = TRUE]
    [] m.state = "DRAINING" -> \* NEVER: admission is closed
         Note(v, "TotalHandlers")
    [] m.state = "QUARANTINED" -> \* NEVER: admission is closed by the same failure
         Note(v, "TotalHandlers")
    [] m.state = "HANDED" -> \* NEVER: admission is closed
         Note(v, "TotalHandlers")

\* an operation of ours on it was admitted to a queue
pages_START(v) ==
  LET m == v.pages IN
  CASE m.state = "FREE" -> \* NEVER: nothing starts on memory that is not lent
         Note(v, "TotalHandlers")
    [] m.state = "HELD" -> \* GO: from admission on it counts as started (CountExact)
         [v EXCEPT !.pages.own = TRUE, !.pages.state = "IN_FLIGHT"]
    [] m.state = "IN_FLIGHT" -> \* STAY: one more operation
         [v EXCEPT !.pages.own = TRUE]
    [] m.state = "DRAINING" -> \* NEVER: admission is closed
         Note(v, "TotalHandlers")
    [] m.state = "QUARANTINED" -> \* NEVER: admission is closed by the same failure
         Note(v, "TotalHandlers")
    [] m.state = "HANDED" -> \* NEVER: admission is closed
         Note(v, "TotalHandlers")

\* started - quiescent of our operations on it is zero (fenced counts as quiescent)
buffer_QUIET(v) ==
  LET m == v.buffer IN
  CASE m.state = "FREE" -> \* IGNORE: late
         v
    [] m.state = "HELD" -> \* IGNORE: nothing was in flight
         v
    [] m.state = "IN_FLIGHT" /\ m.own /\ ~m.theirs -> \* GO: quiescent
         [v EXCEPT !.buffer.own = FALSE, !.buffer.state = "HELD"]
    [] m.state = "IN_FLIGHT" /\ m.own /\ m.theirs -> \* STAY: the peer may still touch it
         [v EXCEPT !.buffer.own = FALSE]
    [] m.state = "IN_FLIGHT" /\ ~m.own -> \* IGNORE: nothing of ours was in flight
         v
    [] m.state = "DRAINING" /\ m.own /\ ~m.theirs -> \* GO: the end that starts operations has none left
         [v EXCEPT !.buffer.own = FALSE, !.buffer.theirs = FALSE, !.buffer.over = FALSE, !.buffer.state = "HANDED"]
    [] m.state = "DRAINING" /\ m.own /\ m.theirs -> \* STAY: the peer may still touch it
         [v EXCEPT !.buffer.own = FALSE]
    [] m.state = "DRAINING" /\ ~m.own -> \* IGNORE: nothing of ours was in flight
         v
    [] m.state = "QUARANTINED" /\ (m.own /\ ~m.theirs) /\ m.over -> \* GO: fenced
         [v EXCEPT !.buffer.own = FALSE, !.buffer.theirs = FALSE, !.buffer.over = FALSE, !.buffer.state = "HANDED"]
    [] m.state = "QUARANTINED" /\ (m.own /\ ~m.theirs) /\ ~m.over -> \* GO: fenced before the room was closed
         [v EXCEPT !.buffer.own = FALSE, !.buffer.state = "HELD"]
    [] m.state = "QUARANTINED" /\ m.own /\ m.theirs -> \* STAY: the peer may still touch it
         [v EXCEPT !.buffer.own = FALSE]
    [] m.state = "QUARANTINED" /\ ~m.own -> \* IGNORE: nothing of ours was in flight
         v
    [] m.state = "HANDED" -> \* IGNORE: late
         v

\* started - quiescent of our operations on it is zero (fenced counts as quiescent)
pages_QUIET(v) ==
  LET m == v.pages IN
  CASE m.state = "FREE" -> \* IGNORE: late
         v
    [] m.state = "HELD" -> \* IGNORE: nothing was in flight
         v
    [] m.state = "IN_FLIGHT" /\ m.own /\ ~m.theirs -> \* GO: quiescent
         [v EXCEPT !.pages.own = FALSE, !.pages.state = "HELD"]
    [] m.state = "IN_FLIGHT" /\ m.own /\ m.theirs -> \* STAY: the peer may still touch it
         [v EXCEPT !.pages.own = FALSE]
    [] m.state = "IN_FLIGHT" /\ ~m.own -> \* IGNORE: nothing of ours was in flight
         v
    [] m.state = "DRAINING" /\ m.own /\ ~m.theirs -> \* GO: the end that starts operations has none left
         [v EXCEPT !.pages.own = FALSE, !.pages.theirs = FALSE, !.pages.over = FALSE, !.pages.state = "HANDED"]
    [] m.state = "DRAINING" /\ m.own /\ m.theirs -> \* STAY: the peer may still touch it
         [v EXCEPT !.pages.own = FALSE]
    [] m.state = "DRAINING" /\ ~m.own -> \* IGNORE: nothing of ours was in flight
         v
    [] m.state = "QUARANTINED" /\ (m.own /\ ~m.theirs) /\ m.over -> \* GO: fenced
         [v EXCEPT !.pages.own = FALSE, !.pages.theirs = FALSE, !.pages.over = FALSE, !.pages.state = "HANDED"]
    [] m.state = "QUARANTINED" /\ (m.own /\ ~m.theirs) /\ ~m.over -> \* GO: fenced before the room was closed
         [v EXCEPT !.pages.own = FALSE, !.pages.state = "HELD"]
    [] m.state = "QUARANTINED" /\ m.own /\ m.theirs -> \* STAY: the peer may still touch it
         [v EXCEPT !.pages.own = FALSE]
    [] m.state = "QUARANTINED" /\ ~m.own -> \* IGNORE: nothing of ours was in flight
         v
    [] m.state = "HANDED" -> \* IGNORE: late
         v

receiver_does_SEND_CONCLUDE(v) ==
  IF v.r_link # 0
    THEN LET v1 == IF ~(v.op0 = 1 \/ v.op0 = 4 \/ v.op0 = 5) THEN v ELSE Note(v, "AckMeansQuiescent")
         IN  [v1 EXCEPT !.to_sender = @ \union {[kind |-> "CONCLUDE"]}]
    ELSE v

r_answer_abort(v) ==
  IF v.r_failed # 0 /\ v.receiver.state \in {"Success", "Failed"}
    THEN LET v2 == IF v.r_access.state = "HANDED"
                     THEN LET v1 == IF ~(v.op0 = 1 \/ v.op0 = 4 \/ v.op0 = 5) THEN v ELSE Note(v, "AckMeansQuiescent")
                          IN  [v1 EXCEPT !.to_sender = @ \union {[kind |-> "ABORT_ACK", quarantined |-> 0]}]
                     ELSE v
         IN  IF v2.r_access.state = "QUARANTINED"
               THEN [v2 EXCEPT !.to_sender = @ \union {[kind |-> "ABORT_ACK", quarantined |-> 1]}]
               ELSE v2
    ELSE v

r_access_does_HAND_BACK(v) ==
  r_answer_abort(v)

\* the room is over
r_access_CLOSE(v) ==
  LET m == v.r_access IN
  CASE m.state = "FREE" -> \* IGNORE: late
         v
    [] m.state = "HELD" -> \* GO: never touched: back at once
         r_access_does_HAND_BACK([v EXCEPT !.r_access.state = "HANDED"])
    [] m.state = "IN_FLIGHT" -> \* GO: the room is over, the memory is not (A01, A02)
         [v EXCEPT !.r_access.over = TRUE, !.r_access.state = "DRAINING"]
    [] m.state = "DRAINING" -> \* IGNORE: closed already
         v
    [] m.state = "QUARANTINED" -> \* STAY: the room is over
         [v EXCEPT !.r_access.over = TRUE]
    [] m.state = "HANDED" -> \* IGNORE: closed already
         v

\* every peer that could touch it has drained or is fenced
buffer_DRAINED(v) ==
  LET m == v.buffer IN
  CASE m.state = "FREE" -> \* IGNORE: late: the word is given again when asked again
         v
    [] m.state = "HELD" -> \* IGNORE: nothing was exposed
         v
    [] m.state = "IN_FLIGHT" /\ m.theirs /\ ~m.own -> \* GO: every planned part arrived, or the peer gave it up
         [v EXCEPT !.buffer.theirs = FALSE, !.buffer.state = "HELD"]
    [] m.state = "IN_FLIGHT" /\ m.theirs /\ m.own -> \* STAY: our own operation may still touch it
         [v EXCEPT !.buffer.theirs = FALSE]
    [] m.state = "IN_FLIGHT" /\ ~m.theirs -> \* IGNORE: nothing was exposed
         v
    [] m.state = "DRAINING" /\ m.theirs /\ ~m.own -> \* GO: its drain word, or a fence (A03)
         [v EXCEPT !.buffer.own = FALSE, !.buffer.theirs = FALSE, !.buffer.over = FALSE, !.buffer.state = "HANDED"]
    [] m.state = "DRAINING" /\ m.theirs /\ m.own -> \* STAY: our own operation may still touch it (A15)
         [v EXCEPT !.buffer.theirs = FALSE]
    [] m.state = "DRAINING" /\ ~m.theirs -> \* IGNORE: nothing was exposed
         v
    [] m.state = "QUARANTINED" /\ (m.theirs /\ ~m.own) /\ m.over -> \* GO: fenced, or drained after all
         [v EXCEPT !.buffer.own = FALSE, !.buffer.theirs = FALSE, !.buffer.over = FALSE, !.buffer.state = "HANDED"]
    [] m.state = "QUARANTINED" /\ (m.theirs /\ ~m.own) /\ ~m.over -> \* GO: fenced before the room was closed
         [v EXCEPT !.buffer.theirs = FALSE, !.buffer.state = "HELD"]
    [] m.state = "QUARANTINED" /\ m.theirs /\ m.own -> \* STAY: our own operation is unresolved
         [v EXCEPT !.buffer.theirs = FALSE]
    [] m.state = "QUARANTINED" /\ ~m.theirs -> \* IGNORE: nothing was exposed
         v
    [] m.state = "HANDED" -> \* IGNORE: late
         v

\* every peer that could touch it has drained or is fenced
pages_DRAINED(v) ==
  LET m == v.pages IN
  CASE m.state = "FREE" -> \* IGNORE: late: the word is given again when asked again
         v
    [] m.state = "HELD" -> \* IGNORE: nothing was exposed
         v
    [] m.state = "IN_FLIGHT" /\ m.theirs /\ ~m.own -> \* GO: every planned part arrived, or the peer gave it up
         [v EXCEPT !.pages.theirs = FALSE, !.pages.state = "HELD"]
    [] m.state = "IN_FLIGHT" /\ m.theirs /\ m.own -> \* STAY: our own operation may still touch it
         [v EXCEPT !.pages.theirs = FALSE]
    [] m.state = "IN_FLIGHT" /\ ~m.theirs -> \* IGNORE: nothing was exposed
         v
    [] m.state = "DRAINING" /\ m.theirs /\ ~m.own -> \* GO: its drain word, or a fence (A03)
         [v EXCEPT !.pages.own = FALSE, !.pages.theirs = FALSE, !.pages.over = FALSE, !.pages.state = "HANDED"]
    [] m.state = "DRAINING" /\ m.theirs /\ m.own -> \* STAY: our own operation may still touch it (A15)
         [v EXCEPT !.pages.theirs = FALSE]
    [] m.state = "DRAINING" /\ ~m.theirs -> \* IGNORE: nothing was exposed
         v
    [] m.state = "QUARANTINED" /\ (m.theirs /\ ~m.own) /\ m.over -> \* GO: fenced, or drained after all
         [v EXCEPT !.pages.own = FALSE, !.pages.theirs = FALSE, !.pages.over = FALSE, !.pages.state = "HANDED"]
    [] m.state = "QUARANTINED" /\ (m.theirs /\ ~m.own) /\ ~m.over -> \* GO: fenced before the room was closed
         [v EXCEPT !.pages.theirs = FALSE, !.pages.state = "HELD"]
    [] m.state = "QUARANTINED" /\ m.theirs /\ m.own -> \* STAY: our own operation is unresolved
         [v EXCEPT !.pages.theirs = FALSE]
    [] m.state = "QUARANTINED" /\ ~m.theirs -> \* IGNORE: nothing was exposed
         v
    [] m.state = "HANDED" -> \* IGNORE: late
         v

r_drain(v) ==
  IF v.r_drained # 0 \/ v.r_link = 0
    THEN LET v1 == IF ~(v.buffer.state \in {"FREE", "HANDED"})
                     THEN buffer_DRAINED(v)
                     ELSE v
         IN  IF ~(v1.pages.state \in {"FREE", "HANDED"})
               THEN pages_DRAINED(v1)
               ELSE v1
    ELSE v

r_close(v) ==
  LET v1 == IF ~(v.buffer.state \in {"FREE", "HANDED"})
              THEN buffer_CLOSE(v)
              ELSE v
      v2 == IF ~(v1.pages.state \in {"FREE", "HANDED"})
              THEN pages_CLOSE(v1)
              ELSE v1
      v3 == r_access_CLOSE(v2)
  IN  r_drain(v3)

receiver_does_CLOSE(v) ==
  r_close(v)

\* the engine's pages hold the data
receiver_COMMITTED(v) ==
  LET m == v.receiver IN
  CASE m.state = "Bootstrapping" -> \* NEVER: COMMIT is refused here
         Note(v, "TotalHandlers")
    [] m.state = "WaitingForInput" -> \* NEVER: COMMIT is refused here
         Note(v, "TotalHandlers")
    [] m.state = "Transferring" /\ m.busy -> \* GO: the only way to Success
         receiver_does_CLOSE(receiver_does_SEND_CONCLUDE([v EXCEPT !.receiver.busy = FALSE, !.receiver.state = "Success"]))
    [] m.state = "Transferring" /\ ~m.busy -> \* NEVER: COMMIT comes first
         Note(v, "TotalHandlers")
    [] m.state = "Success" -> \* NEVER: committed once
         Note(v, "TotalHandlers")
    [] m.state = "Failed" /\ m.busy -> \* STAY: failed while the engine wrote: its pages come back only now
         [v EXCEPT !.receiver.busy = FALSE]
    [] m.state = "Failed" /\ ~m.busy -> \* NEVER: COMMIT comes first
         Note(v, "TotalHandlers")

\* started - quiescent of our operations on it is zero (fenced counts as quiescent)
r_access_QUIET(v) ==
  LET m == v.r_access IN
  CASE m.state = "FREE" -> \* IGNORE: late
         v
    [] m.state = "HELD" -> \* IGNORE: nothing was in flight
         v
    [] m.state = "IN_FLIGHT" /\ m.own /\ ~m.theirs -> \* GO: quiescent
         [v EXCEPT !.r_access.own = FALSE, !.r_access.state = "HELD"]
    [] m.state = "IN_FLIGHT" /\ m.own /\ m.theirs -> \* STAY: the peer may still touch it
         [v EXCEPT !.r_access.own = FALSE]
    [] m.state = "IN_FLIGHT" /\ ~m.own -> \* IGNORE: nothing of ours was in flight
         v
    [] m.state = "DRAINING" /\ m.own /\ ~m.theirs -> \* GO: the end that starts operations has none left
         r_access_does_HAND_BACK([v EXCEPT !.r_access.own = FALSE, !.r_access.theirs = FALSE, !.r_access.over = FALSE, !.r_access.state = "HANDED"])
    [] m.state = "DRAINING" /\ m.own /\ m.theirs -> \* STAY: the peer may still touch it
         [v EXCEPT !.r_access.own = FALSE]
    [] m.state = "DRAINING" /\ ~m.own -> \* IGNORE: nothing of ours was in flight
         v
    [] m.state = "QUARANTINED" /\ (m.own /\ ~m.theirs) /\ m.over -> \* GO: fenced
         r_access_does_HAND_BACK([v EXCEPT !.r_access.own = FALSE, !.r_access.theirs = FALSE, !.r_access.over = FALSE, !.r_access.state = "HANDED"])
    [] m.state = "QUARANTINED" /\ (m.own /\ ~m.theirs) /\ ~m.over -> \* GO: fenced before the room was closed
         [v EXCEPT !.r_access.own = FALSE, !.r_access.state = "HELD"]
    [] m.state = "QUARANTINED" /\ m.own /\ m.theirs -> \* STAY: the peer may still touch it
         [v EXCEPT !.r_access.own = FALSE]
    [] m.state = "QUARANTINED" /\ ~m.own -> \* IGNORE: nothing of ours was in flight
         v
    [] m.state = "HANDED" -> \* IGNORE: late
         v

r_quiet(v) ==
  IF ~(v.op0 = 1 \/ v.op0 = 4 \/ v.op0 = 5)
    THEN r_access_QUIET(v)
    ELSE v

receiver_does_READY(v) ==
  [v EXCEPT !.r_ready = 1]

\* an operation of ours on it was admitted to a queue
r_access_START(v) ==
  LET m == v.r_access IN
  CASE m.state = "FREE" -> \* NEVER: nothing starts on memory that is not lent
         Note(v, "TotalHandlers")
    [] m.state = "HELD" -> \* GO: from admission on it counts as started (CountExact)
         [v EXCEPT !.r_access.own = TRUE, !.r_access.state = "IN_FLIGHT"]
    [] m.state = "IN_FLIGHT" -> \* STAY: one more operation
         [v EXCEPT !.r_access.own = TRUE]
    [] m.state = "DRAINING" -> \* NEVER: admission is closed
         Note(v, "TotalHandlers")
    [] m.state = "QUARANTINED" -> \* NEVER: admission is closed by the same failure
         Note(v, "TotalHandlers")
    [] m.state = "HANDED" -> \* NEVER: admission is closed
         Note(v, "TotalHandlers")

r_fetch(v) ==
  IF v.r_heard0 # 0 /\ v.op0 = 0
    THEN LET v1 == [v EXCEPT !.op0 = 1]
             v2 == r_access_START(v1)
         IN  IF ~(v2.buffer.state \in {"FREE", "HANDED"})
               THEN buffer_START(v2)
               ELSE v2
    ELSE v

receiver_does_FETCH(v) ==
  r_fetch(v)

\* a part was pulled, and waiting for its data raised nothing
receiver_OP_DONE(v, whole_now) ==
  LET m == v.receiver IN
  CASE m.state = "Bootstrapping" -> \* NEVER: nothing is pulled before an offer
         Note(v, "TotalHandlers")
    [] m.state = "WaitingForInput" -> \* NEVER: nothing is pulled before an offer
         Note(v, "TotalHandlers")
    [] m.state = "Transferring" /\ ~m.whole /\ (~m.gated /\ whole_now) -> \* STAY: the last part is here
         receiver_does_READY([v EXCEPT !.receiver.whole = TRUE])
    [] m.state = "Transferring" /\ ~m.whole /\ ~(~m.gated /\ whole_now) -> \* STAY: a credit came back; more may be pulled
         receiver_does_FETCH([v EXCEPT !.receiver.whole = whole_now])
    [] m.state = "Transferring" /\ m.whole -> \* NEVER: each part is pulled once
         Note(v, "TotalHandlers")
    [] m.state = "Success" -> \* NEVER: everything had arrived
         Note(v, "TotalHandlers")
    [] m.state = "Failed" -> \* IGNORE: counted by its lease; the data is dropped
         v

r_send_abort(v) ==
  IF v.r_link # 0
    THEN [v EXCEPT !.to_sender = @ \union {[kind |-> "ABORT"]}]
    ELSE v

receiver_does_SEND_ABORT(v) ==
  r_send_abort(v)

\* a pull failed and is quiescent
receiver_OP_FAILED(v) ==
  LET m == v.receiver IN
  CASE m.state = "Bootstrapping" -> \* NEVER: nothing is pulled before an offer
         Note(v, "TotalHandlers")
    [] m.state = "WaitingForInput" -> \* NEVER: nothing is pulled before an offer
         Note(v, "TotalHandlers")
    [] m.state = "Transferring" -> \* FAIL: an errored array is never a success (hazard 1)
         receiver_does_CLOSE(receiver_does_SEND_ABORT([v EXCEPT !.receiver.state = "Failed"]))
    [] m.state = "Success" -> \* NEVER: everything had arrived
         Note(v, "TotalHandlers")
    [] m.state = "Failed" -> \* IGNORE: counted by its lease
         v

\* a fact has had no answer for a re-send interval
receiver_RESEND(v) ==
  LET m == v.receiver IN
  CASE m.state = "Bootstrapping" -> \* STAY: ANNOUNCE is re-sent until it is answered
         receiver_does_SEND_FACTS(v)
    [] m.state = "WaitingForInput" -> \* STAY: META is re-sent until it is answered
         receiver_does_SEND_FACTS(v)
    [] m.state = "Transferring" -> \* STAY: a fact is re-sent until an answer contains it
         receiver_does_SEND_FACTS(v)
    [] m.state = "Success" -> \* STAY: CONCLUDE is re-sent until the sender says it is over
         receiver_does_SEND_FACTS(v)
    [] m.state = "Failed" -> \* STAY: ABORT is re-sent until it is acknowledged
         receiver_does_SEND_FACTS(v)

\* the engine gives the request up
receiver_ABORT(v) ==
  LET m == v.receiver IN
  CASE m.state = "Bootstrapping" -> \* FAIL: addressable from create on, since ANNOUNCE came first (Q13)
         receiver_does_CLOSE(receiver_does_SEND_ABORT([v EXCEPT !.receiver.state = "Failed"]))
    [] m.state = "WaitingForInput" -> \* FAIL: pages stay lent until the sender has drained (A01)
         receiver_does_CLOSE(receiver_does_SEND_ABORT([v EXCEPT !.receiver.state = "Failed"]))
    [] m.state = "Transferring" -> \* FAIL: pages stay lent until the sender has drained (A01)
         receiver_does_CLOSE(receiver_does_SEND_ABORT([v EXCEPT !.receiver.state = "Failed"]))
    [] m.state = "Success" -> \* IGNORE: too late: the pages are the engine's
         v
    [] m.state = "Failed" -> \* IGNORE: over already; the first cause holds
         v

s_reply(v) ==
  IF v.sender.state \in {"Success", "Failed"}
    THEN LET v1 == IF v.s_access.state = "HANDED"
                     THEN v
                     ELSE v
         IN  [v1 EXCEPT !.to_receiver = @ \union {[kind |-> "OVER", success |-> (IF v1.sender.state = "Success" THEN 1 ELSE 0), drain |-> (IF v1.s_access.state = "HANDED" THEN 1 ELSE (IF v1.s_access.state = "QUARANTINED" THEN 2 ELSE 0)), heard |-> (IF v1.s_failed # 0 \/ v1.s_concluded # 0 THEN 1 ELSE 0), answer |-> 0]}]
    ELSE [v EXCEPT !.to_receiver = @ \union {[kind |-> "LIVE", told0 |-> (IF v.s_offered0 # 0 THEN 1 ELSE 0), closed |-> (IF v.sender.plan # "open" /\ v.sender.state \in {"WaitingForInput", "Transferring"} THEN 1 ELSE 0), meta |-> v.s_meta, answer |-> 0]}]

sender_does_REPLY(v) ==
  s_reply(v)

\* ANNOUNCE with an equal room and fingerprint
sender_BIND(v, is_push, all) ==
  LET m == v.sender IN
  CASE m.state = "Bootstrapping" /\ ~m.bound -> \* STAY: from here on silence counts; pairing, too, until every rank was met
         sender_does_REPLY([v EXCEPT !.sender.bound = TRUE, !.sender.met = all, !.sender.push = is_push])
    [] m.state = "Bootstrapping" /\ (m.bound /\ ~m.met) /\ all -> \* STAY: the last rank of the attempt
         sender_does_REPLY([v EXCEPT !.sender.met = TRUE])
    [] m.state = "Bootstrapping" /\ m.bound /\ ~(~m.met /\ all) -> \* IGNORE: another rank of the same attempt, or a copy
         sender_does_REPLY(v)
    [] m.state = "WaitingForInput" -> \* IGNORE: a copy of ANNOUNCE
         sender_does_REPLY(v)
    [] m.state = "Transferring" -> \* IGNORE: a copy of ANNOUNCE
         sender_does_REPLY(v)
    [] m.state = "Success" -> \* IGNORE: late copy: recognised, creates nothing
         sender_does_REPLY(v)
    [] m.state = "Failed" -> \* IGNORE: late copy: recognised, creates nothing
         sender_does_REPLY(v)

\* the memory is lent to the room
s_access_TAKE(v) ==
  LET m == v.s_access IN
  CASE m.state = "FREE" -> \* GO: lent
         [v EXCEPT !.s_access.state = "HELD"]
    [] m.state = "HELD" -> \* NEVER: lent once
         Note(v, "TotalHandlers")
    [] m.state = "IN_FLIGHT" -> \* NEVER: lent once
         Note(v, "TotalHandlers")
    [] m.state = "DRAINING" -> \* NEVER: lent once
         Note(v, "TotalHandlers")
    [] m.state = "QUARANTINED" -> \* NEVER: lent once
         Note(v, "TotalHandlers")
    [] m.state = "HANDED" -> \* NEVER: not picked yet
         Note(v, "TotalHandlers")

Hear_to_sender_ANNOUNCE(v, m) ==
  IF v.s_peer # 0
    THEN sender_BIND(v, FALSE, TRUE)
    ELSE IF v.s_tomb # 0
           THEN [v EXCEPT !.to_receiver = @ \union {[kind |-> "NO_LEG"]}]
           ELSE LET v1 == [v EXCEPT !.s_peer = 1]
                    v2 == s_access_TAKE(v1)
                    v3 == IF v2.sender.state \in {"Success", "Failed"}
                            THEN s_access_CLOSE(v2)
                            ELSE v2
                IN  sender_BIND(v3, FALSE, TRUE)

\* a receiver rank says where data goes
sender_META(v, all) ==
  LET m == v.sender IN
  CASE m.state = "Bootstrapping" /\ (m.bound /\ all) /\ m.plan = "empty" -> \* GO: an empty plan is in doubt from its closing message on
         sender_does_REPLY(sender_does_SEND_CLOSE([v EXCEPT !.sender.doubt = TRUE, !.sender.state = "Transferring"]))
    [] m.state = "Bootstrapping" /\ (m.bound /\ all) /\ m.plan = "closed" -> \* GO: everything was sent already: start it, and say how much it is
         sender_does_REPLY(sender_does_START_PARTS(sender_does_SEND_CLOSE([v EXCEPT !.sender.state = "WaitingForInput"])))
    [] m.state = "Bootstrapping" /\ (m.bound /\ all) /\ m.plan = "open" -> \* GO: what was sent so far can start
         sender_does_REPLY(sender_does_START_PARTS([v EXCEPT !.sender.state = "WaitingForInput"]))
    [] m.state = "Bootstrapping" /\ m.bound /\ ~all -> \* STAY: other receiver ranks are still allocating
         sender_does_REPLY(v)
    [] m.state = "Bootstrapping" /\ ~m.bound -> \* NEVER: the core pairs a leg before it hands on META
         Note(v, "TotalHandlers")
    [] m.state = "WaitingForInput" -> \* IGNORE: a copy of META; the first one holds (Q48)
         sender_does_REPLY(v)
    [] m.state = "Transferring" -> \* IGNORE: a copy of META
         sender_does_REPLY(v)
    [] m.state = "Success" -> \* IGNORE: late copy (Q04)
         sender_does_REPLY(v)
    [] m.state = "Failed" -> \* IGNORE: late: no zombie room (Q04)
         sender_does_REPLY(v)

Hear_to_sender_META(v, m) ==
  IF v.s_peer # 0
    THEN LET v1 == sender_BIND(v, FALSE, TRUE)
             v2 == [v1 EXCEPT !.s_meta = 1]
         IN  sender_META(v2, TRUE)
    ELSE IF v.s_tomb # 0
           THEN [v EXCEPT !.to_receiver = @ \union {[kind |-> "NO_LEG"]}]
           ELSE LET v3 == [v EXCEPT !.s_peer = 1]
                    v4 == s_access_TAKE(v3)
                    v5 == IF v4.sender.state \in {"Success", "Failed"}
                            THEN s_access_CLOSE(v4)
                            ELSE v4
                    v6 == sender_BIND(v5, FALSE, TRUE)
                    v7 == [v6 EXCEPT !.s_meta = 1]
                IN  sender_META(v7, TRUE)

\* CONCLUDE: a receiver rank committed
sender_CONCLUDED(v, all) ==
  LET m == v.sender IN
  CASE m.state = "Bootstrapping" /\ m.bound -> \* FAIL: nothing was sent, so nothing can have been received
         sender_does_CLOSE(sender_does_SEND_ABORT([v EXCEPT !.sender.state = "Failed"]))
    [] m.state = "Bootstrapping" /\ ~m.bound -> \* NEVER: an unbound leg has no peer
         Note(v, "TotalHandlers")
    [] m.state = "WaitingForInput" -> \* FAIL: nothing was started, so nothing can have been received
         sender_does_CLOSE(sender_does_SEND_ABORT([v EXCEPT !.sender.state = "Failed"]))
    [] m.state = "Transferring" /\ all /\ m.doubt -> \* GO: the receiver alone decides; every rank of it has
         sender_does_REPLY(sender_does_CLOSE([v EXCEPT !.sender.doubt = FALSE, !.sender.state = "Success"]))
    [] m.state = "Transferring" /\ all /\ ~m.doubt -> \* FAIL: concluded before everything was started (B10)
         sender_does_CLOSE(sender_does_SEND_ABORT([v EXCEPT !.sender.state = "Failed"]))
    [] m.state = "Transferring" /\ ~all -> \* STAY: one rank has what it needs; others have not
         sender_does_REPLY(v)
    [] m.state = "Success" -> \* IGNORE: it was not sure that we heard it
         sender_does_REPLY(v)
    [] m.state = "Failed" -> \* IGNORE: it succeeded, we were in doubt: Failed stays
         sender_does_REPLY(v)

Hear_to_sender_CONCLUDE(v, m) ==
  IF v.s_peer # 0
    THEN LET v1 == [v EXCEPT !.s_concluded = 1]
             v2 == [v1 EXCEPT !.s_drained = 1]
             v3 == s_drain(v2)
         IN  sender_CONCLUDED(v3, TRUE)
    ELSE IF v.s_tomb # 0
           THEN LET v4 == v
                IN  [v4 EXCEPT !.to_receiver = @ \union {[kind |-> "ABORT_ACK", quarantined |-> 0]}]
           ELSE LET v5 == [v EXCEPT !.s_tomb = 1]
                    v6 == v5
                IN  [v6 EXCEPT !.to_receiver = @ \union {[kind |-> "ABORT_ACK", quarantined |-> 0]}]

\* ABORT of a receiver rank
sender_PEER_FAILED(v) ==
  LET m == v.sender IN
  CASE m.state = "Bootstrapping" /\ m.bound -> \* FAIL: the receiver gave up before anything was started
         sender_does_CLOSE(sender_does_SEND_ABORT([v EXCEPT !.sender.state = "Failed"]))
    [] m.state = "Bootstrapping" /\ ~m.bound -> \* NEVER: an unbound leg has no peer; the core keeps such an ABORT as a tombstone (Q13)
         Note(v, "TotalHandlers")
    [] m.state = "WaitingForInput" -> \* FAIL: the receiver gave up before anything was started
         sender_does_CLOSE(sender_does_SEND_ABORT([v EXCEPT !.sender.state = "Failed"]))
    [] m.state = "Transferring" -> \* FAIL: its own word: it has not succeeded, so there is no doubt
         sender_does_CLOSE(sender_does_SEND_ABORT([v EXCEPT !.sender.doubt = FALSE, !.sender.state = "Failed"]))
    [] m.state = "Success" -> \* IGNORE: a rank that concluded cannot fail; counted, never believed
         v
    [] m.state = "Failed" -> \* IGNORE: it failed too; its ABORT is still answered
         v

Hear_to_sender_ABORT(v, m) ==
  IF v.s_peer # 0
    THEN LET v1 == [v EXCEPT !.s_failed = 1]
             v2 == sender_PEER_FAILED(v1)
         IN  s_answer_abort(v2)
    ELSE IF v.s_tomb # 0
           THEN LET v3 == v
                IN  [v3 EXCEPT !.to_receiver = @ \union {[kind |-> "ABORT_ACK", quarantined |-> 0]}]
           ELSE LET v4 == [v EXCEPT !.s_tomb = 1]
                    v5 == v4
                IN  [v5 EXCEPT !.to_receiver = @ \union {[kind |-> "ABORT_ACK", quarantined |-> 0]}]

\* ABORT_ACK(quarantined): an operation of the peer may still be in flight
copy0_PEER_UNRESOLVED(v) ==
  LET m == v.copy0 IN
  CASE m.state = "FREE" -> \* IGNORE: late
         v
    [] m.state = "HELD" -> \* IGNORE: nothing was exposed
         v
    [] m.state = "IN_FLIGHT" /\ m.theirs -> \* GO: its attempt is over; the memory waits for fence(peer)
         [v EXCEPT !.copy0.state = "QUARANTINED"]
    [] m.state = "IN_FLIGHT" /\ ~m.theirs -> \* IGNORE: nothing was exposed
         v
    [] m.state = "DRAINING" /\ m.theirs -> \* GO: waits for fence(peer)
         [v EXCEPT !.copy0.state = "QUARANTINED"]
    [] m.state = "DRAINING" /\ ~m.theirs -> \* IGNORE: it has drained since
         v
    [] m.state = "QUARANTINED" -> \* IGNORE: known
         v
    [] m.state = "HANDED" -> \* IGNORE: it had drained
         v

Hear_to_sender_ABORT_ACK(v, m) ==
  IF v.s_peer # 0
    THEN LET v1 == [v EXCEPT !.s_acked = 1]
         IN  IF m.quarantined # 0
               THEN IF v1.s_drained = 0
                      THEN IF ~(v1.copy0.state \in {"FREE", "HANDED"})
                             THEN copy0_PEER_UNRESOLVED(v1)
                             ELSE v1
                      ELSE v1
               ELSE LET v2 == [v1 EXCEPT !.s_drained = 1]
                    IN  s_drain(v2)
    ELSE v

\* QUERY, or a STATUS that wants an answer
sender_QUERIED(v) ==
  LET m == v.sender IN
  CASE m.state = "Bootstrapping" /\ m.bound -> \* STAY: a query is always answered
         sender_does_REPLY(v)
    [] m.state = "Bootstrapping" /\ ~m.bound -> \* NEVER: the core answers for attempts that no leg is bound to
         Note(v, "TotalHandlers")
    [] m.state = "WaitingForInput" -> \* STAY: a long prefill: the answer keeps the receiver waiting (C02)
         sender_does_REPLY(v)
    [] m.state = "Transferring" -> \* STAY: a query is always answered
         sender_does_REPLY(v)
    [] m.state = "Success" -> \* STAY: answered for a tombstone too
         sender_does_REPLY(v)
    [] m.state = "Failed" -> \* STAY: answered for a tombstone too
         sender_does_REPLY(v)

Hear_to_sender_QUERY(v, m) ==
  IF v.s_peer # 0
    THEN sender_QUERIED(v)
    ELSE IF v.s_tomb # 0
           THEN [v EXCEPT !.to_receiver = @ \union {[kind |-> "NO_LEG"]}]
           ELSE [v EXCEPT !.to_receiver = @ \union {[kind |-> "NO_LEG"]}]

\* STATUS that names this attempt as live
sender_LIVE(v) ==
  LET m == v.sender IN
  CASE m.state = "Bootstrapping" /\ m.bound -> \* STAY: the receiver still allocates
         [v EXCEPT !.sender.asked = FALSE]
    [] m.state = "Bootstrapping" /\ ~m.bound -> \* NEVER: an unbound leg has no peer
         Note(v, "TotalHandlers")
    [] m.state = "WaitingForInput" -> \* STAY: the receiver waits for this prefill
         [v EXCEPT !.sender.asked = FALSE]
    [] m.state = "Transferring" -> \* STAY: only an answer that names this attempt re-arms
         [v EXCEPT !.sender.asked = FALSE]
    [] m.state = "Success" -> \* IGNORE: late
         v
    [] m.state = "Failed" -> \* IGNORE: late
         v

Hear_to_sender_LIVE(v, m) ==
  IF v.s_peer # 0
    THEN LET v2 == IF m.meta # 0 /\ v.s_meta = 0
                     THEN LET v1 == [v EXCEPT !.s_meta = 1]
                          IN  sender_META(v1, TRUE)
                     ELSE v
             v3 == [v2 EXCEPT !.s_seen = (IF v2.s_seen < m.parts THEN m.parts ELSE v2.s_seen)]
             v4 == [v3 EXCEPT !.s_total = (IF v3.s_total # 0 \/ m.total # 0 THEN 1 ELSE 0)]
             v5 == sender_LIVE(v4)
         IN  IF m.answer # 0
               THEN sender_QUERIED(v5)
               ELSE v5
    ELSE IF v.s_tomb # 0
           THEN [v EXCEPT !.to_receiver = @ \union {[kind |-> "NO_LEG"]}]
           ELSE LET v6 == [v EXCEPT !.s_peer = 1]
                    v7 == s_access_TAKE(v6)
                    v8 == IF v7.sender.state \in {"Success", "Failed"}
                            THEN s_access_CLOSE(v7)
                            ELSE v7
                    v9 == sender_BIND(v8, FALSE, TRUE)
                IN  IF m.meta # 0
                      THEN LET v10 == [v9 EXCEPT !.s_meta = 1]
                           IN  sender_META(v10, TRUE)
                      ELSE v9

Hear_to_sender_OVER(v, m) ==
  IF v.s_peer # 0
    THEN LET v4 == IF m.success # 0 /\ v.s_concluded = 0
                     THEN LET v1 == [v EXCEPT !.s_concluded = 1]
                              v2 == [v1 EXCEPT !.s_drained = 1]
                              v3 == s_drain(v2)
                          IN  sender_CONCLUDED(v3, TRUE)
                     ELSE v
             v7 == IF m.success = 0 /\ v4.s_failed = 0
                     THEN LET v5 == [v4 EXCEPT !.s_failed = 1]
                              v6 == sender_PEER_FAILED(v5)
                          IN  s_answer_abort(v6)
                     ELSE v4
             v10 == IF m.drain # 0
                      THEN LET v8 == [v7 EXCEPT !.s_acked = 1]
                           IN  IF m.drain = 2
                                 THEN IF v8.s_drained = 0
                                        THEN IF ~(v8.copy0.state \in {"FREE", "HANDED"})
                                               THEN copy0_PEER_UNRESOLVED(v8)
                                               ELSE v8
                                        ELSE v8
                                 ELSE LET v9 == [v8 EXCEPT !.s_drained = 1]
                                      IN  s_drain(v9)
                      ELSE v7
         IN  IF m.answer # 0
               THEN sender_QUERIED(v10)
               ELSE v10
    ELSE IF v.s_tomb # 0
           THEN LET v11 == v
                IN  [v11 EXCEPT !.to_receiver = @ \union {[kind |-> "ABORT_ACK", quarantined |-> 0]}]
           ELSE LET v12 == [v EXCEPT !.s_tomb = 1]
                    v13 == v12
                IN  [v13 EXCEPT !.to_receiver = @ \union {[kind |-> "ABORT_ACK", quarantined |-> 0]}]

Hear_to_sender(v, m) ==
    CASE m.kind = "ANNOUNCE" -> Hear_to_sender_ANNOUNCE(v, m)
      [] m.kind = "META" -> Hear_to_sender_META(v, m)
      [] m.kind = "CONCLUDE" -> Hear_to_sender_CONCLUDE(v, m)
      [] m.kind = "ABORT" -> Hear_to_sender_ABORT(v, m)
      [] m.kind = "ABORT_ACK" -> Hear_to_sender_ABORT_ACK(v, m)
      [] m.kind = "QUERY" -> Hear_to_sender_QUERY(v, m)
      [] m.kind = "LIVE" -> Hear_to_sender_LIVE(v, m)
      [] m.kind = "OVER" -> Hear_to_sender_OVER(v, m)

\* a sender rank says that its leg is paired with this attempt
receiver_BOUND(v, all) ==
  LET m == v.receiver IN
  CASE m.state = "Bootstrapping" /\ all /\ ~m.bound -> \* STAY: from here on silence counts, not pairing
         [v EXCEPT !.receiver.bound = TRUE]
    [] m.state = "Bootstrapping" /\ all /\ m.bound -> \* IGNORE: a copy
         v
    [] m.state = "Bootstrapping" /\ ~all -> \* IGNORE: other sender ranks have not met it yet
         v
    [] m.state = "WaitingForInput" /\ all /\ ~m.bound -> \* STAY: from here on silence counts, not pairing
         [v EXCEPT !.receiver.bound = TRUE]
    [] m.state = "WaitingForInput" /\ all /\ m.bound -> \* IGNORE: a copy
         v
    [] m.state = "WaitingForInput" /\ ~all -> \* IGNORE: other sender ranks have not met it yet
         v
    [] m.state = "Transferring" /\ all /\ ~m.bound -> \* STAY: a reordered answer: data came first
         [v EXCEPT !.receiver.bound = TRUE]
    [] m.state = "Transferring" /\ all /\ m.bound -> \* IGNORE: a copy
         v
    [] m.state = "Transferring" /\ ~all -> \* IGNORE: other sender ranks have not met it yet
         v
    [] m.state = "Success" -> \* IGNORE: late copy
         v
    [] m.state = "Failed" -> \* IGNORE: late; ABORT is on its way to it
         v

\* OFFER, PART_DONE or CLOSE told something new
receiver_PARTS(v, whole_now) ==
  LET m == v.receiver IN
  CASE m.state = "Bootstrapping" -> \* FAIL: nothing may move before META
         receiver_does_CLOSE(receiver_does_SEND_ABORT([v EXCEPT !.receiver.state = "Failed"]))
    [] m.state = "WaitingForInput" /\ m.push /\ (~m.gated /\ whole_now) -> \* GO: everything came in one message
         receiver_does_READY([v EXCEPT !.receiver.whole = TRUE, !.receiver.state = "Transferring"])
    [] m.state = "WaitingForInput" /\ m.push /\ ~(~m.gated /\ whole_now) -> \* GO: the first part, or the closing message
         [v EXCEPT !.receiver.whole = whole_now, !.receiver.state = "Transferring"]
    [] m.state = "WaitingForInput" /\ ~m.push /\ (~m.gated /\ whole_now) -> \* GO: an empty plan was closed: there is nothing to pull
         receiver_does_READY([v EXCEPT !.receiver.whole = TRUE, !.receiver.state = "Transferring"])
    [] m.state = "WaitingForInput" /\ ~m.push /\ ~(~m.gated /\ whole_now) -> \* GO: the first offer, or the closing message
         receiver_does_FETCH([v EXCEPT !.receiver.whole = whole_now, !.receiver.state = "Transferring"])
    [] m.state = "Transferring" /\ (~m.whole /\ m.push) /\ (~m.gated /\ whole_now) -> \* STAY: the last part is here
         receiver_does_READY([v EXCEPT !.receiver.whole = TRUE])
    [] m.state = "Transferring" /\ (~m.whole /\ m.push) /\ ~(~m.gated /\ whole_now) -> \* STAY: one more part, or the gate is still closed
         [v EXCEPT !.receiver.whole = whole_now]
    [] m.state = "Transferring" /\ (~m.whole /\ ~m.push) /\ (~m.gated /\ whole_now) -> \* STAY: the closing message came after the last pull
         receiver_does_READY([v EXCEPT !.receiver.whole = TRUE])
    [] m.state = "Transferring" /\ (~m.whole /\ ~m.push) /\ ~(~m.gated /\ whole_now) -> \* STAY: one more offer, or the gate is still closed
         receiver_does_FETCH([v EXCEPT !.receiver.whole = whole_now])
    [] m.state = "Transferring" /\ m.whole -> \* IGNORE: a copy: everything arrived before
         v
    [] m.state = "Success" -> \* IGNORE: late copy; its destination refuses data (NoWriteAfterArrival)
         v
    [] m.state = "Failed" -> \* IGNORE: late: nothing is started, nothing is received
         v

Hear_to_receiver_PART0(v, m) ==
  LET v2 == IF v.r_bound = 0
              THEN LET v1 == [v EXCEPT !.r_bound = 1]
                   IN  receiver_BOUND(v1, TRUE)
              ELSE v
  IN  IF ~(v2.receiver.state \in {"Success", "Failed"}) /\ v2.r_heard0 = 0
        THEN LET v3 == [v2 EXCEPT !.r_heard0 = 1]
                 v4 == r_drain(v3)
             IN  receiver_PARTS(v4, v4.r_total # 0 /\ v4.op0 = 2)
        ELSE v2

Hear_to_receiver_CLOSE(v, m) ==
  LET v2 == IF v.r_bound = 0
              THEN LET v1 == [v EXCEPT !.r_bound = 1]
                   IN  receiver_BOUND(v1, TRUE)
              ELSE v
  IN  IF ~(v2.receiver.state \in {"Success", "Failed"}) /\ v2.r_total = 0
        THEN LET v3 == [v2 EXCEPT !.r_total = 1]
                 v4 == r_drain(v3)
             IN  receiver_PARTS(v4, v4.r_total # 0 /\ v4.op0 = 2)
        ELSE v2

r_reply(v) ==
  IF v.receiver.state \in {"Success", "Failed"}
    THEN LET v1 == IF v.r_access.state = "HANDED" \/ v.receiver.state = "Success"
                     THEN IF ~(v.op0 = 1 \/ v.op0 = 4 \/ v.op0 = 5) THEN v ELSE Note(v, "AckMeansQuiescent")
                     ELSE v
         IN  [v1 EXCEPT !.to_sender = @ \union {[kind |-> "OVER", success |-> (IF v1.receiver.state = "Success" THEN 1 ELSE 0), drain |-> (IF v1.r_access.state = "HANDED" THEN 1 ELSE (IF v1.r_access.state = "QUARANTINED" THEN 2 ELSE 0)), answer |-> 0]}]
    ELSE [v EXCEPT !.to_sender = @ \union {[kind |-> "LIVE", meta |-> (IF v.r_meta # 0 /\ v.receiver.linked = TRUE THEN 1 ELSE 0), parts |-> (v.r_heard0), total |-> v.r_total, answer |-> 0]}]

receiver_does_REPLY(v) ==
  r_reply(v)

\* ABORT of a sender rank
receiver_PEER_FAILED(v) ==
  LET m == v.receiver IN
  CASE m.state = "Bootstrapping" -> \* FAIL: prefill rejected or gave up (B10); no page was lent yet
         receiver_does_CLOSE(receiver_does_SEND_ABORT([v EXCEPT !.receiver.state = "Failed"]))
    [] m.state = "WaitingForInput" -> \* FAIL: prefill failed; never looks like a hand-off (B10)
         receiver_does_CLOSE(receiver_does_SEND_ABORT([v EXCEPT !.receiver.state = "Failed"]))
    [] m.state = "Transferring" -> \* FAIL: not concluded yet: the sender's word ends it
         receiver_does_CLOSE(receiver_does_SEND_ABORT([v EXCEPT !.receiver.state = "Failed"]))
    [] m.state = "Success" -> \* IGNORE: it failed in doubt: tell it again that we concluded
         receiver_does_REPLY(v)
    [] m.state = "Failed" -> \* IGNORE: it failed too; its ABORT is still answered
         v

Hear_to_receiver_ABORT(v, m) ==
  LET v1 == [v EXCEPT !.r_failed = 1]
      v2 == receiver_PEER_FAILED(v1)
  IN  r_answer_abort(v2)

\* ABORT_ACK(quarantined): an operation of the peer may still be in flight
buffer_PEER_UNRESOLVED(v) ==
  LET m == v.buffer IN
  CASE m.state = "FREE" -> \* IGNORE: late
         v
    [] m.state = "HELD" -> \* IGNORE: nothing was exposed
         v
    [] m.state = "IN_FLIGHT" /\ m.theirs -> \* GO: its attempt is over; the memory waits for fence(peer)
         [v EXCEPT !.buffer.state = "QUARANTINED"]
    [] m.state = "IN_FLIGHT" /\ ~m.theirs -> \* IGNORE: nothing was exposed
         v
    [] m.state = "DRAINING" /\ m.theirs -> \* GO: waits for fence(peer)
         [v EXCEPT !.buffer.state = "QUARANTINED"]
    [] m.state = "DRAINING" /\ ~m.theirs -> \* IGNORE: it has drained since
         v
    [] m.state = "QUARANTINED" -> \* IGNORE: known
         v
    [] m.state = "HANDED" -> \* IGNORE: it had drained
         v

\* ABORT_ACK(quarantined): an operation of the peer may still be in flight
pages_PEER_UNRESOLVED(v) ==
  LET m == v.pages IN
  CASE m.state = "FREE" -> \* IGNORE: late
         v
    [] m.state = "HELD" -> \* IGNORE: nothing was exposed
         v
    [] m.state = "IN_FLIGHT" /\ m.theirs -> \* GO: its attempt is over; the memory waits for fence(peer)
         [v EXCEPT !.pages.state = "QUARANTINED"]
    [] m.state = "IN_FLIGHT" /\ ~m.theirs -> \* IGNORE: nothing was exposed
         v
    [] m.state = "DRAINING" /\ m.theirs -> \* GO: waits for fence(peer)
         [v EXCEPT !.pages.state = "QUARANTINED"]
    [] m.state = "DRAINING" /\ ~m.theirs -> \* IGNORE: it has drained since
         v
    [] m.state = "QUARANTINED" -> \* IGNORE: known
         v
    [] m.state = "HANDED" -> \* IGNORE: it had drained
         v

Hear_to_receiver_ABORT_ACK(v, m) ==
  LET v1 == [v EXCEPT !.r_acked = 1]
  IN  IF m.quarantined # 0
        THEN IF v1.r_drained = 0
               THEN LET v2 == IF ~(v1.buffer.state \in {"FREE", "HANDED"})
                                THEN buffer_PEER_UNRESOLVED(v1)
                                ELSE v1
                    IN  IF ~(v2.pages.state \in {"FREE", "HANDED"})
                          THEN pages_PEER_UNRESOLVED(v2)
                          ELSE v2
               ELSE v1
        ELSE LET v3 == [v1 EXCEPT !.r_drained = 1]
             IN  r_drain(v3)

\* QUERY, or a STATUS that wants an answer
receiver_QUERIED(v) ==
  LET m == v.receiver IN
  CASE m.state = "Bootstrapping" -> \* STAY: pages are still being allocated: the answer keeps the sender waiting
         receiver_does_REPLY(v)
    [] m.state = "WaitingForInput" -> \* STAY: a query is always answered
         receiver_does_REPLY(v)
    [] m.state = "Transferring" -> \* STAY: a query is always answered
         receiver_does_REPLY(v)
    [] m.state = "Success" -> \* STAY: answered for a tombstone too
         receiver_does_REPLY(v)
    [] m.state = "Failed" -> \* STAY: answered for a tombstone too
         receiver_does_REPLY(v)

Hear_to_receiver_QUERY(v, m) ==
  receiver_QUERIED(v)

\* a sender rank holds no equal leg for this attempt
receiver_NO_LEG(v) ==
  LET m == v.receiver IN
  CASE m.state = "Bootstrapping" -> \* FAIL: only one leg ever arrived, or it is of another request
         receiver_does_CLOSE(receiver_does_SEND_ABORT([v EXCEPT !.receiver.state = "Failed"]))
    [] m.state = "WaitingForInput" -> \* FAIL: only one leg ever arrived, or it is of another request
         receiver_does_CLOSE(receiver_does_SEND_ABORT([v EXCEPT !.receiver.state = "Failed"]))
    [] m.state = "Transferring" /\ ~m.whole -> \* FAIL: the sender holds nothing for this attempt any more
         receiver_does_CLOSE(receiver_does_SEND_ABORT([v EXCEPT !.receiver.state = "Failed"]))
    [] m.state = "Transferring" /\ m.whole -> \* IGNORE: everything is here (rule 2)
         v
    [] m.state = "Success" -> \* IGNORE: its record is gone: one peer less to tell
         v
    [] m.state = "Failed" -> \* IGNORE: its record is gone: one peer less to tell
         v

Hear_to_receiver_NO_LEG(v, m) ==
  LET v1 == [v EXCEPT !.r_acked = 1]
      v2 == [v1 EXCEPT !.r_drained = 1]
      v3 == [v2 EXCEPT !.r_over = 1]
      v4 == r_drain(v3)
  IN  receiver_NO_LEG(v4)

\* STATUS that names this attempt as live
receiver_LIVE(v) ==
  LET m == v.receiver IN
  CASE m.state = "Bootstrapping" -> \* STAY: the sender knows this attempt
         v
    [] m.state = "WaitingForInput" -> \* STAY: a long prefill is not silence (C02)
         v
    [] m.state = "Transferring" -> \* STAY: only an answer that names this attempt re-arms
         v
    [] m.state = "Success" -> \* IGNORE: late
         v
    [] m.state = "Failed" -> \* IGNORE: late
         v

Hear_to_receiver_LIVE(v, m) ==
  LET v2 == IF v.r_bound = 0
              THEN LET v1 == [v EXCEPT !.r_bound = 1]
                   IN  receiver_BOUND(v1, TRUE)
              ELSE v
      v6 == IF m.told0 # 0 \/ m.closed # 0
              THEN IF ~(v2.receiver.state \in {"Success", "Failed"}) /\ ((m.told0 # 0 /\ v2.r_heard0 = 0) \/ (m.closed # 0 /\ v2.r_total = 0))
                     THEN LET v3 == [v2 EXCEPT !.r_heard0 = (IF v2.r_heard0 # 0 \/ m.told0 # 0 THEN 1 ELSE 0)]
                              v4 == [v3 EXCEPT !.r_total = (IF v3.r_total # 0 \/ m.closed # 0 THEN 1 ELSE 0)]
                              v5 == r_drain(v4)
                          IN  receiver_PARTS(v5, v5.r_total # 0 /\ v5.op0 = 2)
                     ELSE v2
              ELSE v2
      v7 == [v6 EXCEPT !.r_saw_announce = 1]
      v8 == [v7 EXCEPT !.r_saw_meta = (IF v7.r_saw_meta # 0 \/ m.meta # 0 THEN 1 ELSE 0)]
      v9 == receiver_LIVE(v8)
  IN  IF m.answer # 0
        THEN receiver_QUERIED(v9)
        ELSE v9

Hear_to_receiver_OVER(v, m) ==
  LET v2 == IF v.r_bound = 0
              THEN LET v1 == [v EXCEPT !.r_bound = 1]
                   IN  receiver_BOUND(v1, TRUE)
              ELSE v
      v3 == [v2 EXCEPT !.r_over = 1]
      v4 == [v3 EXCEPT !.r_saw_announce = 1]
      v5 == [v4 EXCEPT !.r_saw_over = (IF v4.r_saw_over # 0 \/ m.heard # 0 THEN 1 ELSE 0)]
      v8 == IF m.success = 0 /\ v5.r_failed = 0
              THEN LET v6 == [v5 EXCEPT !.r_failed = 1]
                       v7 == receiver_PEER_FAILED(v6)
                   IN  r_answer_abort(v7)
              ELSE v5
      v12 == IF m.drain # 0
               THEN LET v9 == [v8 EXCEPT !.r_acked = 1]
                    IN  IF m.drain = 2
                          THEN IF v9.r_drained = 0
                                 THEN LET v10 == IF ~(v9.buffer.state \in {"FREE", "HANDED"})
                                                   THEN buffer_PEER_UNRESOLVED(v9)
                                                   ELSE v9
                                      IN  IF ~(v10.pages.state \in {"FREE", "HANDED"})
                                            THEN pages_PEER_UNRESOLVED(v10)
                                            ELSE v10
                                 ELSE v9
                          ELSE LET v11 == [v9 EXCEPT !.r_drained = 1]
                               IN  r_drain(v11)
               ELSE v8
  IN  IF m.answer # 0
        THEN receiver_QUERIED(v12)
        ELSE v12

Hear_to_receiver(v, m) ==
    CASE m.kind = "PART0" -> Hear_to_receiver_PART0(v, m)
      [] m.kind = "CLOSE" -> Hear_to_receiver_CLOSE(v, m)
      [] m.kind = "ABORT" -> Hear_to_receiver_ABORT(v, m)
      [] m.kind = "ABORT_ACK" -> Hear_to_receiver_ABORT_ACK(v, m)
      [] m.kind = "QUERY" -> Hear_to_receiver_QUERY(v, m)
      [] m.kind = "NO_LEG" -> Hear_to_receiver_NO_LEG(v, m)
      [] m.kind = "LIVE" -> Hear_to_receiver_LIVE(v, m)
      [] m.kind = "OVER" -> Hear_to_receiver_OVER(v, m)

\* the prefill engine sends part 0
Step_1 ==
  /\ w.sender.plan = "open"
  /\ w.s_sent = 0
  /\ w' =
       IF w.sender.state = "Failed"
         THEN sender_SEND(w, TRUE, TRUE, FALSE)
         ELSE LET v1 == [w EXCEPT !.s_sent = 1]
                  v2 == sender_SEND(v1, TRUE, TRUE, FALSE)
                  v3 == copy0_TAKE(v2)
                  v4 == copy0_START(v3)
                  v5 == copy0_QUIET(v4)
              IN  sender_STARTABLE(v5)
\* the sender says its facts again
Step_2 ==
  /\ w.s_peer # 0
  /\ (IF w.sender.state = "Failed" THEN w.s_acked = 0 ELSE w.s_meta # 0 /\ (w.s_seen < ((IF w.s_offered0 # 0 THEN 1 ELSE 0)) \/ (w.sender.plan # "open" /\ w.sender.state \in {"WaitingForInput", "Transferring"} /\ w.s_total = 0)) /\ ~(w.sender.state = "Success"))
  /\ w.to_sender = {}
  /\ w.to_receiver = {}
  /\ w' =
       sender_RESEND(w)
\* nobody pairs the leg
Step_3 ==
  /\ ~(w.sender.state \in {"Success", "Failed"})
  /\ w.s_peer = 0
  /\ w.receiver.state \in {"Success", "Failed"}
  /\ w.to_sender = {}
  /\ w.to_receiver = {}
  /\ w' =
       sender_PAIRING(w)
\* the prefill engine aborts
Step_4 ==
  /\ w.aborts > 0
  /\ ~(w.sender.state \in {"Success", "Failed"})
  /\ w' =
       LET v1 == [w EXCEPT !.aborts = @ - 1]
       IN  sender_ABORT(v1)
\* the link opens
Step_5 ==
  /\ w.r_link = 0
  /\ w' =
       LET v1 == [w EXCEPT !.r_link = 1]
       IN  receiver_LINKED(v1, TRUE, FALSE)
\* the decode engine hands pages over
Step_6 ==
  /\ w.r_meta = 0
  /\ w' =
       LET v1 == [w EXCEPT !.r_meta = 1]
           v2 == pages_TAKE(v1)
           v3 == buffer_TAKE(v2)
           v4 == receiver_META(v3, FALSE)
       IN  IF v4.receiver.state \in {"Success", "Failed"}
             THEN LET v5 == IF ~(v4.pages.state \in {"FREE", "HANDED"})
                              THEN pages_CLOSE(v4)
                              ELSE v4
                  IN  IF ~(v5.buffer.state \in {"FREE", "HANDED"})
                        THEN buffer_CLOSE(v5)
                        ELSE v5
             ELSE v4
\* the decode engine commits
Step_7 ==
  /\ w.r_ready # 0
  /\ w.receiver.state = "Transferring"
  /\ w.receiver.whole = TRUE
  /\ w.receiver.gated = FALSE
  /\ w.receiver.busy = FALSE
  /\ w' =
       LET v1 == receiver_COMMIT(w)
           v2 == IF ~(v1.buffer.state \in {"FREE", "HANDED"})
                   THEN buffer_START(v1)
                   ELSE v1
       IN  IF ~(v2.pages.state \in {"FREE", "HANDED"})
             THEN pages_START(v2)
             ELSE v2
\* the commit is done
Step_8 ==
  /\ w.receiver.busy = TRUE
  /\ w' =
       LET v1 == IF ~(w.buffer.state \in {"FREE", "HANDED"})
                   THEN buffer_QUIET(w)
                   ELSE w
           v2 == IF ~(v1.pages.state \in {"FREE", "HANDED"})
                   THEN pages_QUIET(v1)
                   ELSE v1
       IN  receiver_COMMITTED(v2)
\* part 0 is pulled
Step_9 ==
  /\ w.op0 = 1
  /\ w' =
       LET v1 == [w EXCEPT !.op0 = 2]
           v2 == IF ~(v1.op0 = 1 \/ v1.op0 = 4 \/ v1.op0 = 5) /\ v1.receiver.busy # TRUE
                   THEN IF ~(v1.buffer.state \in {"FREE", "HANDED"})
                          THEN buffer_QUIET(v1)
                          ELSE v1
                   ELSE v1
           v3 == r_quiet(v2)
       IN  receiver_OP_DONE(v3, v3.r_total # 0 /\ v3.op0 = 2)
\* pulling part 0 is cancelled
Step_10 ==
  /\ w.op0 = 1
  /\ w.receiver.state \in {"Success", "Failed"}
  /\ w' =
       LET v1 == [w EXCEPT !.op0 = 3]
           v2 == IF ~(v1.op0 = 1 \/ v1.op0 = 4 \/ v1.op0 = 5) /\ v1.receiver.busy # TRUE
                   THEN IF ~(v1.buffer.state \in {"FREE", "HANDED"})
                          THEN buffer_QUIET(v1)
                          ELSE v1
                   ELSE v1
           v3 == r_quiet(v2)
       IN  receiver_OP_FAILED(v3)
\* the receiver says its facts again
Step_11 ==
  /\ w.r_link # 0
  /\ (IF w.receiver.state = "Failed" THEN w.r_acked = 0 \/ (w.r_acked # 0 /\ w.r_drained = 0 /\ (w.buffer.state = "QUARANTINED" \/ w.pages.state = "QUARANTINED")) ELSE (IF w.receiver.state = "Success" THEN (w.r_over = 0 /\ w.r_saw_over = 0) \/ (w.r_acked # 0 /\ w.r_drained = 0 /\ (w.buffer.state = "QUARANTINED" \/ w.pages.state = "QUARANTINED")) ELSE w.receiver.whole # TRUE /\ ((w.r_saw_announce = 0 /\ w.r_bound = 0) \/ (w.r_meta # 0 /\ w.receiver.linked = TRUE /\ ~(w.r_saw_meta # 0 \/ w.r_total # 0 \/ w.r_heard0 # 0)))))
  /\ w.to_sender = {}
  /\ w.to_receiver = {}
  /\ w' =
       receiver_RESEND(w)
\* the decode engine aborts
Step_12 ==
  /\ w.aborts > 0
  /\ ~(w.receiver.state \in {"Success", "Failed"})
  /\ w' =
       LET v1 == [w EXCEPT !.aborts = @ - 1]
       IN  receiver_ABORT(v1)
Arrives_to_sender == \E m \in w.to_sender : w' = Hear_to_sender([w EXCEPT !.to_sender = @ \ {m}], m)
Lost_to_sender == w.losses > 0 /\ \E m \in w.to_sender : w' = [[w EXCEPT !.to_sender = @ \ {m}] EXCEPT !.losses = @ - 1]
Arrives_to_receiver == \E m \in w.to_receiver : w' = Hear_to_receiver([w EXCEPT !.to_receiver = @ \ {m}], m)
Lost_to_receiver == w.losses > 0 /\ \E m \in w.to_receiver : w' = [[w EXCEPT !.to_receiver = @ \ {m}] EXCEPT !.losses = @ - 1]
Next == Step_1 \/ Step_2 \/ Step_3 \/ Step_4 \/ Step_5 \/ Step_6 \/ Step_7 \/ Step_8 \/ Step_9 \/ Step_10 \/ Step_11 \/ Step_12 \/ Arrives_to_sender \/ Lost_to_sender \/ Arrives_to_receiver \/ Lost_to_receiver

Spec == Init /\ [][Next]_w

NothingBroken == w.broken = ""
\* not: the copy of part 0 went back while it was read
NoFreeInFlight_1 == ~(w.op0 = 1 \/ w.op0 = 4 \/ w.op0 = 5) \/ ~(w.copy0.state \in {"FREE", "HANDED"})
\* not: the receive buffer went back while part 0 was written
NoFreeInFlight_2 == ~(w.op0 = 1 \/ w.op0 = 4 \/ w.op0 = 5) \/ ~(w.buffer.state \in {"FREE", "HANDED"})
\* not: memory went back while the engine committed
NoFreeInFlight_3 == w.receiver.busy # TRUE \/ (~(w.buffer.state \in {"FREE", "HANDED"}) /\ ~(w.pages.state \in {"FREE", "HANDED"}))
\* not: the sender succeeded and the receiver has not
SuccessOrder_4 == ~(w.sender.state = "Success") \/ w.receiver.state = "Success"
\* not: the sender failed without doubt, the receiver succeeded
SuccessOrder_5 == ~(w.sender.state = "Failed" /\ w.receiver.state = "Success") \/ w.sender.doubt = TRUE
\* not: the receiver succeeded without every part
CompleteOrNotSuccess_6 == ~(w.receiver.state = "Success") \/ w.op0 = 2
====
