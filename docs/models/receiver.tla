---- MODULE receiver ----
(* The decode side of one attempt at one rank.
   Made by `kvpoll docs --write` (or `make docs`) from the table in spec/. Do not edit. *)
VARIABLES
  state, \* where the machine is
  linked, \* the link to every sender rank is open, so the attempt was announced
  push, \* the transport that we picked pushes
  meta, \* the engine has handed pages over
  bound, \* every sender rank said that a leg is paired with this attempt
  whole, \* for every planned (sender rank, layers, kind) the ranges that arrived cover [prefix, N)
  gated, \* a local gate (staging scatter, cache restore) is still closed
  busy, \* the engine is committing: it writes its pages right now
  asks \* the effects that the last step asked for, in order

vars == <<state, linked, push, meta, bound, whole, gated, busy, asks>>
States == {"Failed", "Bootstrapping", "WaitingForInput", "Transferring", "Success"}
Terminal == {"Failed", "Success"}

TypeOK ==
  /\ state \in States
  /\ linked \in BOOLEAN
  /\ push \in BOOLEAN
  /\ meta \in BOOLEAN
  /\ bound \in BOOLEAN
  /\ whole \in BOOLEAN
  /\ gated \in BOOLEAN
  /\ busy \in BOOLEAN

Init ==
  /\ state = "Bootstrapping"
  /\ linked = FALSE
  /\ push = FALSE
  /\ meta = FALSE
  /\ bound = FALSE
  /\ whole = FALSE
  /\ gated = FALSE
  /\ busy = FALSE
  /\ asks = <<>>

\* META, from the engine: the engine hands over destination pages and the aux slot
On_META(gates) ==
  \/ \* STAY: decode first: the pages wait for the link
     /\ state = "Bootstrapping" /\ ~linked /\ ~meta
     /\ meta' = TRUE
     /\ gated' = gates
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, bound, whole, busy>>
  \/ \* GO: the buffer is open before anybody hears of it
     /\ state = "Bootstrapping" /\ (linked /\ push) /\ ~meta
     /\ state' = "WaitingForInput"
     /\ meta' = TRUE
     /\ gated' = gates
     /\ asks' = <<"EXPOSE", "SEND_META">>
     /\ UNCHANGED <<linked, push, bound, whole, busy>>
  \/ \* GO: pull: the sender may offer from now on
     /\ state = "Bootstrapping" /\ (linked /\ ~push) /\ ~meta
     /\ state' = "WaitingForInput"
     /\ meta' = TRUE
     /\ gated' = gates
     /\ asks' = <<"SEND_META">>
     /\ UNCHANGED <<linked, push, bound, whole, busy>>
  \/ \* IGNORE: the engine cannot have known yet; its pages are handed back at once
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* GATE_OPEN, from the engine: a local step that Success waits for is done
On_GATE_OPEN(all) ==
  \/ \* STAY: the restore was faster than the link
     /\ state = "Bootstrapping" /\ all
     /\ gated' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, busy>>
  \/ \* IGNORE: other gates are still closed
     /\ state = "Bootstrapping" /\ ~all
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: the restore was faster than the prefill
     /\ state = "WaitingForInput" /\ all
     /\ gated' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, busy>>
  \/ \* IGNORE: other gates are still closed
     /\ state = "WaitingForInput" /\ ~all
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: the gate was the last thing to wait for
     /\ state = "Transferring" /\ (all /\ whole) /\ gated
     /\ gated' = FALSE
     /\ asks' = <<"READY">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, busy>>
  \/ \* STAY: data is still on its way
     /\ state = "Transferring" /\ all /\ ~whole
     /\ gated' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, busy>>
  \/ \* IGNORE: a copy
     /\ state = "Transferring" /\ (all /\ whole) /\ ~gated
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: other gates are still closed
     /\ state = "Transferring" /\ ~all
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: late
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: over already
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* GATE_FAILED, from the engine: a local step that Success waits for failed
On_GATE_FAILED ==
  \/ \* FAIL, cause GATE_FAILED: Success has become impossible
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause GATE_FAILED: Success has become impossible
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause GATE_FAILED: Success has become impossible
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: late: the data was committed
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: over already
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* COMMIT, from the engine: the engine starts to write what arrived into its pages
On_COMMIT ==
  \/ \* STAY: on the engine's thread; its pages are in flight until COMMITTED
     /\ state = "Transferring" /\ (whole /\ ~gated) /\ ~busy
     /\ busy' = TRUE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated>>

\* COMMITTED, from the engine: the engine's pages hold the data
On_COMMITTED ==
  \/ \* GO: the only way to Success
     /\ state = "Transferring" /\ busy
     /\ state' = "Success"
     /\ busy' = FALSE
     /\ asks' = <<"SEND_CONCLUDE", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated>>
  \/ \* STAY: failed while the engine wrote: its pages come back only now
     /\ state = "Failed" /\ busy
     /\ busy' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated>>

\* COMMIT_FAILED, from the engine: writing into the engine's pages raised
On_COMMIT_FAILED ==
  \/ \* FAIL, cause GATE_FAILED: the engine could not write its pages
     /\ state = "Transferring" /\ busy
     /\ state' = "Failed"
     /\ busy' = FALSE
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated>>
  \/ \* STAY: failed twice; the first cause holds
     /\ state = "Failed" /\ busy
     /\ busy' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated>>

\* ABORT, from the engine: the engine gives the request up
On_ABORT ==
  \/ \* FAIL, cause ABORTED: addressable from create on, since ANNOUNCE came first (Q13)
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause ABORTED: pages stay lent until the sender has drained (A01)
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause ABORTED: pages stay lent until the sender has drained (A01)
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: too late: the pages are the engine's
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: over already; the first cause holds
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* BOUND, from the peer: a sender rank says that its leg is paired with this attempt
On_BOUND(all) ==
  \/ \* STAY: from here on silence counts, not pairing
     /\ state = "Bootstrapping" /\ all /\ ~bound
     /\ bound' = TRUE
     /\ asks' = <<"ARM_SILENCE">>
     /\ UNCHANGED <<state, linked, push, meta, whole, gated, busy>>
  \/ \* IGNORE: a copy
     /\ state = "Bootstrapping" /\ all /\ bound
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: other sender ranks have not met it yet
     /\ state = "Bootstrapping" /\ ~all
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: from here on silence counts, not pairing
     /\ state = "WaitingForInput" /\ all /\ ~bound
     /\ bound' = TRUE
     /\ asks' = <<"ARM_SILENCE">>
     /\ UNCHANGED <<state, linked, push, meta, whole, gated, busy>>
  \/ \* IGNORE: a copy
     /\ state = "WaitingForInput" /\ all /\ bound
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: other sender ranks have not met it yet
     /\ state = "WaitingForInput" /\ ~all
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: a reordered answer: data came first
     /\ state = "Transferring" /\ all /\ ~bound
     /\ bound' = TRUE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, whole, gated, busy>>
  \/ \* IGNORE: a copy
     /\ state = "Transferring" /\ all /\ bound
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: other sender ranks have not met it yet
     /\ state = "Transferring" /\ ~all
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: late copy
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: late; ABORT is on its way to it
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* PARTS, from the peer: OFFER, PART_DONE or CLOSE told something new
On_PARTS(whole_now) ==
  \/ \* FAIL, cause PROTOCOL: nothing may move before META
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* GO: everything came in one message
     /\ state = "WaitingForInput" /\ push /\ (~gated /\ whole_now)
     /\ state' = "Transferring"
     /\ whole' = TRUE
     /\ asks' = <<"READY">>
     /\ UNCHANGED <<linked, push, meta, bound, gated, busy>>
  \/ \* GO: the first part, or the closing message
     /\ state = "WaitingForInput" /\ push /\ ~(~gated /\ whole_now)
     /\ state' = "Transferring"
     /\ whole' = whole_now
     /\ asks' = <<"ARM_SILENCE">>
     /\ UNCHANGED <<linked, push, meta, bound, gated, busy>>
  \/ \* GO: an empty plan was closed: there is nothing to pull
     /\ state = "WaitingForInput" /\ ~push /\ (~gated /\ whole_now)
     /\ state' = "Transferring"
     /\ whole' = TRUE
     /\ asks' = <<"READY">>
     /\ UNCHANGED <<linked, push, meta, bound, gated, busy>>
  \/ \* GO: the first offer, or the closing message
     /\ state = "WaitingForInput" /\ ~push /\ ~(~gated /\ whole_now)
     /\ state' = "Transferring"
     /\ whole' = whole_now
     /\ asks' = <<"FETCH", "ARM_SILENCE">>
     /\ UNCHANGED <<linked, push, meta, bound, gated, busy>>
  \/ \* STAY: the last part is here
     /\ state = "Transferring" /\ (~whole /\ push) /\ (~gated /\ whole_now)
     /\ whole' = TRUE
     /\ asks' = <<"READY">>
     /\ UNCHANGED <<state, linked, push, meta, bound, gated, busy>>
  \/ \* STAY: one more part, or the gate is still closed
     /\ state = "Transferring" /\ (~whole /\ push) /\ ~(~gated /\ whole_now)
     /\ whole' = whole_now
     /\ asks' = <<"ARM_SILENCE">>
     /\ UNCHANGED <<state, linked, push, meta, bound, gated, busy>>
  \/ \* STAY: the closing message came after the last pull
     /\ state = "Transferring" /\ (~whole /\ ~push) /\ (~gated /\ whole_now)
     /\ whole' = TRUE
     /\ asks' = <<"READY">>
     /\ UNCHANGED <<state, linked, push, meta, bound, gated, busy>>
  \/ \* STAY: one more offer, or the gate is still closed
     /\ state = "Transferring" /\ (~whole /\ ~push) /\ ~(~gated /\ whole_now)
     /\ whole' = whole_now
     /\ asks' = <<"FETCH", "ARM_SILENCE">>
     /\ UNCHANGED <<state, linked, push, meta, bound, gated, busy>>
  \/ \* IGNORE: a copy: everything arrived before
     /\ state = "Transferring" /\ whole
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: late copy; its destination refuses data (NoWriteAfterArrival)
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: late: nothing is started, nothing is received
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* PLAN_REFUSED, from the peer: a part outside the plan, twice with other ranges, or totals that disagree
On_PLAN_REFUSED ==
  \/ \* FAIL, cause PLAN_REFUSED: the sender's plan does not fit this request
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause PLAN_REFUSED: the sender's plan does not fit this request
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause PLAN_REFUSED: ranges or totals that disagree are refused, never truncated (Q26)
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: late
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: late
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* PEER_FAILED, from the peer: ABORT of a sender rank
On_PEER_FAILED ==
  \/ \* FAIL, cause PEER_ABORTED: prefill rejected or gave up (B10); no page was lent yet
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause PEER_ABORTED: prefill failed; never looks like a hand-off (B10)
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause PEER_ABORTED: not concluded yet: the sender's word ends it
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: it failed in doubt: tell it again that we concluded
     /\ state = "Success"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: it failed too; its ABORT is still answered
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* NO_LEG, from the peer: a sender rank holds no equal leg for this attempt
On_NO_LEG ==
  \/ \* FAIL, cause NO_LEG: only one leg ever arrived, or it is of another request
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause NO_LEG: only one leg ever arrived, or it is of another request
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause NO_LEG: the sender holds nothing for this attempt any more
     /\ state = "Transferring" /\ ~whole
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: everything is here (rule 2)
     /\ state = "Transferring" /\ whole
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: its record is gone: one peer less to tell
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: its record is gone: one peer less to tell
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* BUSY, from the peer: the room is bound to another engine or instance
On_BUSY ==
  \/ \* FAIL, cause ROOM_BUSY: the live holder is left alone (E01)
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause ROOM_BUSY: the live holder is left alone (E01)
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause ROOM_BUSY: the live holder is left alone
     /\ state = "Transferring" /\ ~whole
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: everything is here (rule 2)
     /\ state = "Transferring" /\ whole
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: late
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: over already
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* LIVE, from the peer: STATUS that names this attempt as live
On_LIVE ==
  \/ \* STAY: the sender knows this attempt
     /\ state = "Bootstrapping"
     /\ asks' = <<"ARM_SILENCE">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: a long prefill is not silence (C02)
     /\ state = "WaitingForInput"
     /\ asks' = <<"ARM_SILENCE">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: only an answer that names this attempt re-arms
     /\ state = "Transferring"
     /\ asks' = <<"ARM_SILENCE">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: late
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: late
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* QUERIED, from the peer: QUERY, or a STATUS that wants an answer
On_QUERIED ==
  \/ \* STAY: pages are still being allocated: the answer keeps the sender waiting
     /\ state = "Bootstrapping"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: a query is always answered
     /\ state = "WaitingForInput"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: a query is always answered
     /\ state = "Transferring"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: answered for a tombstone too
     /\ state = "Success"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: answered for a tombstone too
     /\ state = "Failed"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* CREDIT, from the transport: the transport takes operations again
On_CREDIT ==
  \/ \* STAY: one more part can be pulled
     /\ state = "Transferring"
     /\ asks' = <<"FETCH">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: nothing new is started
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* OP_DONE, from the transport: a part was pulled, and waiting for its data raised nothing
On_OP_DONE(whole_now) ==
  \/ \* STAY: the last part is here
     /\ state = "Transferring" /\ ~whole /\ (~gated /\ whole_now)
     /\ whole' = TRUE
     /\ asks' = <<"READY">>
     /\ UNCHANGED <<state, linked, push, meta, bound, gated, busy>>
  \/ \* STAY: a credit came back; more may be pulled
     /\ state = "Transferring" /\ ~whole /\ ~(~gated /\ whole_now)
     /\ whole' = whole_now
     /\ asks' = <<"FETCH">>
     /\ UNCHANGED <<state, linked, push, meta, bound, gated, busy>>
  \/ \* IGNORE: counted by its lease; the data is dropped
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* OP_FAILED, from the transport: a pull failed and is quiescent
On_OP_FAILED ==
  \/ \* FAIL, cause TRANSPORT_FAILED: an errored array is never a success (hazard 1)
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: counted by its lease
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* OP_UNRESOLVED, from the transport: a pull may still touch memory
On_OP_UNRESOLVED ==
  \/ \* FAIL, cause TRANSPORT_UNRESOLVED: never retried into the same memory
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"FENCE", "SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: fenced at once; its lease is quarantined
     /\ state = "Failed"
     /\ asks' = <<"FENCE">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* DATA_MISSING, from the transport: a part was called done, but its bytes are not here
On_DATA_MISSING ==
  \/ \* FAIL, cause DATA_MISSING: done without data is caught before commit (B10)
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: over already
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* AUX_MISMATCH, from the transport: the aux data says that it belongs to another request
On_AUX_MISMATCH ==
  \/ \* FAIL, cause AUX_MISMATCH: another request's first token (B02)
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: over already
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* RESEND, from the clock: a fact has had no answer for a re-send interval
On_RESEND ==
  \/ \* STAY: ANNOUNCE is re-sent until it is answered
     /\ state = "Bootstrapping"
     /\ asks' = <<"SEND_FACTS">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: META is re-sent until it is answered
     /\ state = "WaitingForInput"
     /\ asks' = <<"SEND_FACTS">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: a fact is re-sent until an answer contains it
     /\ state = "Transferring"
     /\ asks' = <<"SEND_FACTS">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: CONCLUDE is re-sent until the sender says it is over
     /\ state = "Success"
     /\ asks' = <<"SEND_FACTS">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: ABORT is re-sent until it is acknowledged
     /\ state = "Failed"
     /\ asks' = <<"SEND_FACTS">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* ASK, from the clock: half of the silence deadline
On_ASK ==
  \/ \* STAY: half of the silence is over: ask
     /\ state = "Bootstrapping"
     /\ asks' = <<"SEND_QUERY">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: half of the silence is over: ask
     /\ state = "WaitingForInput"
     /\ asks' = <<"SEND_QUERY">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* STAY: half of the silence is over: ask
     /\ state = "Transferring" /\ ~whole
     /\ asks' = <<"SEND_QUERY">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: nothing more is needed (rule 2)
     /\ state = "Transferring" /\ whole
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* SILENCE, from the clock: the silence deadline
On_SILENCE ==
  \/ \* FAIL, cause SILENCE: no answer although asked
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause SILENCE: no answer although asked
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause SILENCE: one lost notification is re-sent; silence after a question is not that (B07)
     /\ state = "Transferring" /\ ~whole
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: nothing more is needed (rule 2)
     /\ state = "Transferring" /\ whole
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* PAIRING, from the clock: the pairing deadline
On_PAIRING ==
  \/ \* FAIL, cause NO_LEG: B has a deadline here (Q11)
     /\ state = "Bootstrapping" /\ ~bound
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale: the legs have met
     /\ state = "Bootstrapping" /\ bound
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause NO_LEG: no sender rank ever met this attempt
     /\ state = "WaitingForInput" /\ ~bound
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale: the legs have met
     /\ state = "WaitingForInput" /\ bound
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale: the sender has spoken
     /\ state = "Transferring"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* GATE, from the clock: the gate deadline
On_GATE ==
  \/ \* FAIL, cause GATE_TIMEOUT: each gate has a deadline
     /\ state = "Bootstrapping" /\ gated
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale: the gate is open
     /\ state = "Bootstrapping" /\ ~gated
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause GATE_TIMEOUT: each gate has a deadline (Q10)
     /\ state = "WaitingForInput" /\ gated
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale: the gate is open
     /\ state = "WaitingForInput" /\ ~gated
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause GATE_TIMEOUT: no endless wait behind a gate (Q10)
     /\ state = "Transferring" /\ gated
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale: the gate is open
     /\ state = "Transferring" /\ ~gated
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* TOTAL, from the clock: the total deadline
On_TOTAL ==
  \/ \* FAIL, cause TOTAL_DEADLINE: nothing re-arms the total deadline
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause TOTAL_DEADLINE: a timeout fails the room; it frees no memory (A02)
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause TOTAL_DEADLINE: also when the engine never commits
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: stale
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* LINKED, from the process: the link to a sender rank is open
On_LINKED(all, is_push) ==
  \/ \* STAY: announced to this rank; other links are still being made
     /\ state = "Bootstrapping" /\ ~all
     /\ push' = is_push
     /\ asks' = <<"SEND_ANNOUNCE">>
     /\ UNCHANGED <<state, linked, meta, bound, whole, gated, busy>>
  \/ \* STAY: announced before pages are owned: an early ABORT is addressable
     /\ state = "Bootstrapping" /\ all /\ ~meta
     /\ push' = is_push
     /\ linked' = TRUE
     /\ asks' = <<"SEND_ANNOUNCE">>
     /\ UNCHANGED <<state, meta, bound, whole, gated, busy>>
  \/ \* GO: one message announces and says where data goes
     /\ state = "Bootstrapping" /\ (all /\ meta) /\ is_push
     /\ state' = "WaitingForInput"
     /\ push' = is_push
     /\ linked' = TRUE
     /\ asks' = <<"EXPOSE", "SEND_META">>
     /\ UNCHANGED <<meta, bound, whole, gated, busy>>
  \/ \* GO: one message announces and says where data goes
     /\ state = "Bootstrapping" /\ (all /\ meta) /\ ~is_push
     /\ state' = "WaitingForInput"
     /\ push' = is_push
     /\ linked' = TRUE
     /\ asks' = <<"SEND_META">>
     /\ UNCHANGED <<meta, bound, whole, gated, busy>>
  \/ \* STAY: failed before it was announced there: that rank's leg must not wait for its own deadline
     /\ state = "Failed"
     /\ asks' = <<"SEND_ANNOUNCE", "SEND_FACTS">>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* REFUSED, from the process: the handshake with a sender rank was refused
On_REFUSED ==
  \/ \* FAIL, cause HANDSHAKE_REFUSED: for this pair only; the process lives on (Q21)
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: over already
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* UNREACHABLE, from the process: a sender rank could not be found or did not answer our hello
On_UNREACHABLE ==
  \/ \* FAIL, cause UNREACHABLE: nobody answers at that address
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: over already
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* PEER_LOST, from the process: a sender rank's process was declared lost, or its link is over
On_PEER_LOST ==
  \/ \* FAIL, cause PEER_LOST: nothing has arrived
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause PEER_LOST: pages wait for fence(peer)
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause PEER_LOST: pages wait for fence(peer)
     /\ state = "Transferring" /\ ~whole
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: everything is here (rule 2)
     /\ state = "Transferring" /\ whole
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: it may never learn: two generals
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: over already; the fence releases what is left
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

\* SHUTDOWN, from the process: this process stops
On_SHUTDOWN ==
  \/ \* FAIL, cause SHUTDOWN: the peer hears of it before the process goes
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause SHUTDOWN: pages wait for the sender's drain word (Q25)
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* FAIL, cause SHUTDOWN: not committed: the sender hears that we failed
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: over already
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>
  \/ \* IGNORE: over already
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, linked, push, meta, bound, whole, gated, busy>>

Never(event) ==
  \/ event = "COMMITTED" /\
       \/ (state = "Bootstrapping") \* COMMIT is refused here
       \/ (state = "WaitingForInput") \* COMMIT is refused here
       \/ (state = "Transferring" /\ ~busy) \* COMMIT comes first
       \/ (state = "Success") \* committed once
       \/ (state = "Failed" /\ ~busy) \* COMMIT comes first
  \/ event = "COMMIT_FAILED" /\
       \/ (state = "Bootstrapping") \* COMMIT is refused here
       \/ (state = "WaitingForInput") \* COMMIT is refused here
       \/ (state = "Transferring" /\ ~busy) \* COMMIT comes first
       \/ (state = "Success") \* committed once
       \/ (state = "Failed" /\ ~busy) \* COMMIT comes first
  \/ event = "CREDIT" /\
       \/ (state = "Bootstrapping") \* nothing waits to be pulled
       \/ (state = "WaitingForInput") \* nothing waits to be pulled
  \/ event = "OP_DONE" /\
       \/ (state = "Bootstrapping") \* nothing is pulled before an offer
       \/ (state = "WaitingForInput") \* nothing is pulled before an offer
       \/ (state = "Transferring" /\ whole) \* each part is pulled once
       \/ (state = "Success") \* everything had arrived
  \/ event = "OP_FAILED" /\
       \/ (state = "Bootstrapping") \* nothing is pulled before an offer
       \/ (state = "WaitingForInput") \* nothing is pulled before an offer
       \/ (state = "Success") \* everything had arrived
  \/ event = "OP_UNRESOLVED" /\
       \/ (state = "Bootstrapping") \* nothing is pulled before an offer
       \/ (state = "WaitingForInput") \* nothing is pulled before an offer
       \/ (state = "Success") \* everything had arrived
  \/ event = "DATA_MISSING" /\
       \/ (state = "Bootstrapping") \* nothing was called done
       \/ (state = "WaitingForInput") \* nothing was called done
       \/ (state = "Success") \* checked before commit
  \/ event = "AUX_MISMATCH" /\
       \/ (state = "Bootstrapping") \* nothing was called done
       \/ (state = "WaitingForInput") \* nothing was called done
       \/ (state = "Success") \* checked before commit
  \/ event = "LINKED" /\
       \/ (state = "WaitingForInput") \* every link is open already
       \/ (state = "Transferring") \* every link is open already
       \/ (state = "Success") \* every link is open already
  \/ event = "REFUSED" /\
       \/ (state = "WaitingForInput") \* every link is open already
       \/ (state = "Transferring") \* every link is open already
       \/ (state = "Success") \* every link is open already
  \/ event = "UNREACHABLE" /\
       \/ (state = "WaitingForInput") \* every link is open already
       \/ (state = "Transferring") \* every link is open already
       \/ (state = "Success") \* every link is open already
  \/ FALSE

Refused(event) ==
  \/ event = "META" /\
       \/ (state = "Bootstrapping" /\ meta) \* pages are handed over once per attempt
       \/ (state = "WaitingForInput") \* pages are handed over once per attempt
       \/ (state = "Transferring") \* pages are handed over once per attempt
       \/ (state = "Success") \* the attempt is over
  \/ event = "COMMIT" /\
       \/ (state = "Bootstrapping") \* nothing has arrived
       \/ (state = "WaitingForInput") \* nothing has arrived
       \/ (state = "Transferring" /\ ((~whole \/ gated) \/ busy)) \* not everything is here, a gate is closed, or it is being committed
       \/ (state = "Success") \* committed already
       \/ (state = "Failed") \* the room has failed; failure_exception() says why
  \/ FALSE

Next ==
  \/ \E gates \in BOOLEAN : On_META(gates)
  \/ \E all \in BOOLEAN : On_GATE_OPEN(all)
  \/ On_GATE_FAILED
  \/ On_COMMIT
  \/ On_COMMITTED
  \/ On_COMMIT_FAILED
  \/ On_ABORT
  \/ \E all \in BOOLEAN : On_BOUND(all)
  \/ \E whole_now \in BOOLEAN : On_PARTS(whole_now)
  \/ On_PLAN_REFUSED
  \/ On_PEER_FAILED
  \/ On_NO_LEG
  \/ On_BUSY
  \/ On_LIVE
  \/ On_QUERIED
  \/ On_CREDIT
  \/ \E whole_now \in BOOLEAN : On_OP_DONE(whole_now)
  \/ On_OP_FAILED
  \/ On_OP_UNRESOLVED
  \/ On_DATA_MISSING
  \/ On_AUX_MISMATCH
  \/ On_RESEND
  \/ On_ASK
  \/ On_SILENCE
  \/ On_PAIRING
  \/ On_GATE
  \/ On_TOTAL
  \/ \E all \in BOOLEAN : \E is_push \in BOOLEAN : On_LINKED(all, is_push)
  \/ On_REFUSED
  \/ On_UNREACHABLE
  \/ On_PEER_LOST
  \/ On_SHUTDOWN

Spec == Init /\ [][Next]_vars

\* TerminalAbsorbing: a state that is terminal is never left.
Absorbing == [][state \in Terminal => state' = state]_vars

====
