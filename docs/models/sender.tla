---- MODULE sender ----
(* The prefill side of one attempt at one rank.
   Made by `kvpoll docs --write` (or `make docs`) from the table in spec/. Do not edit. *)
VARIABLES
  state, \* where the machine is
  bound, \* an attempt of a receiver engine is paired with this leg
  met, \* every receiver rank of that attempt has announced itself
  push, \* the pair's transport is a push transport (known when bound)
  plan, \* may the engine still send; empty: this rank owns no rows
  doubt, \* the receiver may have succeeded without us hearing of it (rule 3)
  asked, \* a QUERY went out since the peer last named this attempt as live
  asks \* the effects that the last step asked for, in order

vars == <<state, bound, met, push, plan, doubt, asked, asks>>
States == {"Failed", "Bootstrapping", "WaitingForInput", "Transferring", "Success"}
Terminal == {"Failed", "Success"}

TypeOK ==
  /\ state \in States
  /\ bound \in BOOLEAN
  /\ met \in BOOLEAN
  /\ push \in BOOLEAN
  /\ plan \in {"open", "closed", "empty"}
  /\ doubt \in BOOLEAN
  /\ asked \in BOOLEAN

Init ==
  /\ state = "Bootstrapping"
  /\ bound = FALSE
  /\ met = FALSE
  /\ push = FALSE
  /\ plan = "open"
  /\ doubt = FALSE
  /\ asked = FALSE
  /\ asks = <<>>

\* SEND, from the engine: the engine hands over a chunk
On_SEND(last, rows, idle) ==
  \/ \* STAY: prefill first: the parts wait, gathered, for META
     /\ state = "Bootstrapping" /\ (plan = "open" /\ last) /\ rows
     /\ plan' = "closed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, doubt, asked>>
  \/ \* STAY: this rank owns no rows; its plan closes by message once bound
     /\ state = "Bootstrapping" /\ (plan = "open" /\ last) /\ ~rows
     /\ plan' = "empty"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, doubt, asked>>
  \/ \* STAY: chunked prefill may run ahead of the receiver
     /\ state = "Bootstrapping" /\ plan = "open" /\ ~last
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* STAY: a chunk starts as soon as it is gathered
     /\ state = "WaitingForInput" /\ (plan = "open" /\ ~last) /\ rows
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: a chunk in which this rank owns no rows
     /\ state = "WaitingForInput" /\ (plan = "open" /\ ~last) /\ ~rows
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* STAY: the last chunk closes the plan with its totals
     /\ state = "WaitingForInput" /\ ((plan = "open" /\ last) /\ rows) /\ ~idle
     /\ plan' = "closed"
     /\ asks' = <<"SEND_CLOSE">>
     /\ UNCHANGED <<state, bound, met, push, doubt, asked>>
  \/ \* GO: every part went to nobody: as good as an empty plan
     /\ state = "WaitingForInput" /\ ((plan = "open" /\ last) /\ rows) /\ idle
     /\ state' = "Transferring"
     /\ plan' = "closed"
     /\ doubt' = TRUE
     /\ asks' = <<"SEND_CLOSE">>
     /\ UNCHANGED <<bound, met, push, asked>>
  \/ \* GO: an empty plan is in doubt from its closing message on
     /\ state = "WaitingForInput" /\ (plan = "open" /\ last) /\ ~rows
     /\ state' = "Transferring"
     /\ plan' = "empty"
     /\ doubt' = TRUE
     /\ asks' = <<"SEND_CLOSE">>
     /\ UNCHANGED <<bound, met, push, asked>>
  \/ \* STAY: the next chunk starts as soon as it is gathered
     /\ state = "Transferring" /\ plan = "open" /\ ~last
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* STAY: the last chunk closes the plan with its totals
     /\ state = "Transferring" /\ (plan = "open" /\ last) /\ ~idle
     /\ plan' = "closed"
     /\ asks' = <<"SEND_CLOSE">>
     /\ UNCHANGED <<state, bound, met, push, doubt, asked>>
  \/ \* STAY: everything was started before: in doubt from here on
     /\ state = "Transferring" /\ (plan = "open" /\ last) /\ idle
     /\ plan' = "closed"
     /\ doubt' = TRUE
     /\ asks' = <<"SEND_CLOSE">>
     /\ UNCHANGED <<state, bound, met, push, asked>>
  \/ \* IGNORE: the engine cannot have known yet; nothing is kept
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* STARTABLE, from the transport: a part was gathered, or a credit came back
On_STARTABLE ==
  \/ \* IGNORE: gathered; it waits for META
     /\ state = "Bootstrapping"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* STAY: read only after the device work that writes it is finished (B01)
     /\ state = "WaitingForInput"
     /\ asks' = <<"START_PARTS">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* STAY: one more can start
     /\ state = "Transferring"
     /\ asks' = <<"START_PARTS">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: stale: everything was started
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: admission is closed; its source lease hears of it
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* ABORT, from the engine: the engine gives the request up
On_ABORT ==
  \/ \* FAIL, cause ABORTED: the peer is told at once; it must not wait for its own deadline (Q08)
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause ABORTED: nothing was started: this rank may fail alone
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause ABORTED: in doubt if everything was started: the receiver may have succeeded
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: too late: the request was handed over (Q03)
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: over already; the first cause holds
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* BIND, from the peer: ANNOUNCE with an equal room and fingerprint
On_BIND(is_push, all) ==
  \/ \* STAY: from here on silence counts; pairing, too, until every rank was met
     /\ state = "Bootstrapping" /\ ~bound
     /\ bound' = TRUE
     /\ met' = all
     /\ push' = is_push
     /\ asks' = <<"ARM_SILENCE", "REPLY">>
     /\ UNCHANGED <<state, plan, doubt, asked>>
  \/ \* STAY: the last rank of the attempt
     /\ state = "Bootstrapping" /\ (bound /\ ~met) /\ all
     /\ met' = TRUE
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, push, plan, doubt, asked>>
  \/ \* IGNORE: another rank of the same attempt, or a copy
     /\ state = "Bootstrapping" /\ bound /\ ~(~met /\ all)
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: a copy of ANNOUNCE
     /\ state = "WaitingForInput"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: a copy of ANNOUNCE
     /\ state = "Transferring"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: late copy: recognised, creates nothing
     /\ state = "Success"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: late copy: recognised, creates nothing
     /\ state = "Failed"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* META, from the peer: a receiver rank says where data goes
On_META(all) ==
  \/ \* GO: an empty plan is in doubt from its closing message on
     /\ state = "Bootstrapping" /\ (bound /\ all) /\ plan = "empty"
     /\ state' = "Transferring"
     /\ doubt' = TRUE
     /\ asks' = <<"SEND_CLOSE", "REPLY">>
     /\ UNCHANGED <<bound, met, push, plan, asked>>
  \/ \* GO: everything was sent already: start it, and say how much it is
     /\ state = "Bootstrapping" /\ (bound /\ all) /\ plan = "closed"
     /\ state' = "WaitingForInput"
     /\ asks' = <<"SEND_CLOSE", "START_PARTS", "REPLY">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* GO: what was sent so far can start
     /\ state = "Bootstrapping" /\ (bound /\ all) /\ plan = "open"
     /\ state' = "WaitingForInput"
     /\ asks' = <<"START_PARTS", "REPLY">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* STAY: other receiver ranks are still allocating
     /\ state = "Bootstrapping" /\ bound /\ ~all
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: a copy of META; the first one holds (Q48)
     /\ state = "WaitingForInput"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: a copy of META
     /\ state = "Transferring"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: late copy (Q04)
     /\ state = "Success"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: late: no zombie room (Q04)
     /\ state = "Failed"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* PLAN_REFUSED, from the peer: META or geometry does not fit this request
On_PLAN_REFUSED ==
  \/ \* FAIL, cause PLAN_REFUSED: too few destinations is a refusal, never a truncation (Q26)
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause PLAN_REFUSED: a second META that differs, or lengths that disagree
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause PLAN_REFUSED: a second META that differs, or lengths that disagree
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: late
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: late
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* PEER_FAILED, from the peer: ABORT of a receiver rank
On_PEER_FAILED ==
  \/ \* FAIL, cause PEER_ABORTED: the receiver gave up before anything was started
     /\ state = "Bootstrapping" /\ bound
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause PEER_ABORTED: the receiver gave up before anything was started
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause PEER_ABORTED: its own word: it has not succeeded, so there is no doubt
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ doubt' = FALSE
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, asked>>
  \/ \* IGNORE: a rank that concluded cannot fail; counted, never believed
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: it failed too; its ABORT is still answered
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* CONCLUDED, from the peer: CONCLUDE: a receiver rank committed
On_CONCLUDED(all) ==
  \/ \* FAIL, cause PROTOCOL: nothing was sent, so nothing can have been received
     /\ state = "Bootstrapping" /\ bound
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause PROTOCOL: nothing was started, so nothing can have been received
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* GO: the receiver alone decides; every rank of it has
     /\ state = "Transferring" /\ all /\ doubt
     /\ state' = "Success"
     /\ doubt' = FALSE
     /\ asks' = <<"CLOSE", "REPLY">>
     /\ UNCHANGED <<bound, met, push, plan, asked>>
  \/ \* FAIL, cause PROTOCOL: concluded before everything was started (B10)
     /\ state = "Transferring" /\ all /\ ~doubt
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* STAY: one rank has what it needs; others have not
     /\ state = "Transferring" /\ ~all
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: it was not sure that we heard it
     /\ state = "Success"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: it succeeded, we were in doubt: Failed stays
     /\ state = "Failed"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* LIVE, from the peer: STATUS that names this attempt as live
On_LIVE ==
  \/ \* STAY: the receiver still allocates
     /\ state = "Bootstrapping" /\ bound
     /\ asked' = FALSE
     /\ asks' = <<"ARM_SILENCE">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt>>
  \/ \* STAY: the receiver waits for this prefill
     /\ state = "WaitingForInput"
     /\ asked' = FALSE
     /\ asks' = <<"ARM_SILENCE">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt>>
  \/ \* STAY: only an answer that names this attempt re-arms
     /\ state = "Transferring"
     /\ asked' = FALSE
     /\ asks' = <<"ARM_SILENCE">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt>>
  \/ \* IGNORE: late
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: late
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* QUERIED, from the peer: QUERY, or a STATUS that wants an answer
On_QUERIED ==
  \/ \* STAY: a query is always answered
     /\ state = "Bootstrapping" /\ bound
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* STAY: a long prefill: the answer keeps the receiver waiting (C02)
     /\ state = "WaitingForInput"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* STAY: a query is always answered
     /\ state = "Transferring"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* STAY: answered for a tombstone too
     /\ state = "Success"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* STAY: answered for a tombstone too
     /\ state = "Failed"
     /\ asks' = <<"REPLY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* PASSED, from the peer: a receiver rank's low_water went past us, its conclusion not held
On_PASSED ==
  \/ \* FAIL, cause ATTEMPT_OVER: the receiver rank no longer holds the attempt
     /\ state = "Bootstrapping" /\ bound
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause ATTEMPT_OVER: the receiver rank no longer holds the attempt
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause ATTEMPT_OVER: its conclusion is lost for good; in doubt says so
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: its conclusion is held
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: it no longer holds the attempt: one peer less to tell
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* SUPERSEDED, from the peer: a higher gen of the same engine announced this room
On_SUPERSEDED ==
  \/ \* FAIL, cause SUPERSEDED: nothing was started: the newer attempt may have the room
     /\ state = "Bootstrapping" /\ bound
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause SUPERSEDED: nothing was started: the newer attempt may have the room
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause SUPERSEDED: the newer attempt may have the room while leases drain
     /\ state = "Transferring" /\ ~doubt
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* STAY: in doubt: the older attempt is asked first
     /\ state = "Transferring" /\ doubt
     /\ asked' = TRUE
     /\ asks' = <<"SEND_QUERY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt>>
  \/ \* IGNORE: the room is free already
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: the room is free already
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* STARTED, from the transport: a part was admitted to the transport (push) or offered (pull)
On_STARTED(final) ==
  \/ \* GO: the only part is on its way
     /\ state = "WaitingForInput" /\ push /\ final
     /\ state' = "Transferring"
     /\ doubt' = TRUE
     /\ asks' = <<>>
     /\ UNCHANGED <<bound, met, push, plan, asked>>
  \/ \* GO: the first part is on its way
     /\ state = "WaitingForInput" /\ push /\ ~final
     /\ state' = "Transferring"
     /\ asks' = <<>>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* GO: the only part can be read from now on
     /\ state = "WaitingForInput" /\ ~push /\ final
     /\ state' = "Transferring"
     /\ doubt' = TRUE
     /\ asks' = <<"SEND_OFFER">>
     /\ UNCHANGED <<bound, met, push, plan, asked>>
  \/ \* GO: the first part can be read from now on
     /\ state = "WaitingForInput" /\ ~push /\ ~final
     /\ state' = "Transferring"
     /\ asks' = <<"SEND_OFFER">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* STAY: the last part is on its way
     /\ state = "Transferring" /\ push /\ final
     /\ doubt' = TRUE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, asked>>
  \/ \* STAY: one more part is on its way
     /\ state = "Transferring" /\ push /\ ~final
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* STAY: the last part can be read from now on
     /\ state = "Transferring" /\ ~push /\ final
     /\ doubt' = TRUE
     /\ asks' = <<"SEND_OFFER">>
     /\ UNCHANGED <<state, bound, met, push, plan, asked>>
  \/ \* STAY: one more part can be read from now on
     /\ state = "Transferring" /\ ~push /\ ~final
     /\ asks' = <<"SEND_OFFER">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: admitted just before the failure; its lease waits for it
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* SKIPPED, from the transport: a part would start, but this receiver rank gets nothing of it
On_SKIPPED(final) ==
  \/ \* GO: nobody gets anything: in doubt from its closing message on
     /\ state = "WaitingForInput" /\ final
     /\ state' = "Transferring"
     /\ doubt' = TRUE
     /\ asks' = <<>>
     /\ UNCHANGED <<bound, met, push, plan, asked>>
  \/ \* IGNORE: other parts, or other receiver ranks, may get something
     /\ state = "WaitingForInput" /\ ~final
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* STAY: everything that goes to anybody was started
     /\ state = "Transferring" /\ final
     /\ doubt' = TRUE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, asked>>
  \/ \* IGNORE: one part less to start
     /\ state = "Transferring" /\ ~final
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* OP_DONE, from the transport: every operation of a part is done and quiescent
On_OP_DONE ==
  \/ \* STAY: said only when every operation of the part is quiescent (B05)
     /\ state = "Transferring" /\ push
     /\ asks' = <<"SEND_PART_DONE">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: counted by its lease; only a receiver that lies concludes before it
     /\ state = "Success" /\ push
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: counted by its lease; done is never said for a failed room
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* OP_FAILED, from the transport: an operation failed and is quiescent
On_OP_FAILED ==
  \/ \* FAIL, cause TRANSPORT_FAILED: the transport would not take the first part (deleted array, no room)
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause TRANSPORT_FAILED: one failed handle fails the room; its siblings are waited for (A15)
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: counted by its lease; only a receiver that lies concludes before it
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: counted by its lease
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* OP_UNRESOLVED, from the transport: an operation may still touch memory
On_OP_UNRESOLVED ==
  \/ \* FAIL, cause TRANSPORT_UNRESOLVED: never retried into the same memory (A18)
     /\ state = "Transferring" /\ push
     /\ state' = "Failed"
     /\ asks' = <<"FENCE", "SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* STAY: fenced at once, whatever the receiver said
     /\ state = "Success" /\ push
     /\ asks' = <<"FENCE">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* STAY: fenced at once; its lease is quarantined
     /\ state = "Failed"
     /\ asks' = <<"FENCE">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* RESEND, from the clock: a fact has had no answer for a re-send interval
On_RESEND ==
  \/ \* STAY: a fact is re-sent until an answer contains it
     /\ state = "WaitingForInput"
     /\ asks' = <<"SEND_FACTS">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* STAY: one lost notification must not hang a room (B07)
     /\ state = "Transferring"
     /\ asks' = <<"SEND_FACTS">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: stale: nothing waits for an answer
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* STAY: ABORT is re-sent until it is acknowledged
     /\ state = "Failed"
     /\ asks' = <<"SEND_FACTS">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* ASK, from the clock: half of the silence deadline
On_ASK ==
  \/ \* STAY: half of the silence is over: ask
     /\ state = "Bootstrapping" /\ bound
     /\ asked' = TRUE
     /\ asks' = <<"SEND_QUERY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt>>
  \/ \* STAY: half of the silence is over: ask
     /\ state = "WaitingForInput"
     /\ asked' = TRUE
     /\ asks' = <<"SEND_QUERY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt>>
  \/ \* STAY: half of the silence is over: ask
     /\ state = "Transferring"
     /\ asked' = TRUE
     /\ asks' = <<"SEND_QUERY">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt>>
  \/ \* IGNORE: stale
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: stale
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* SILENCE, from the clock: the silence deadline
On_SILENCE ==
  \/ \* FAIL, cause SILENCE: a bound receiver that never answers (Q04: its late META finds a tombstone)
     /\ state = "Bootstrapping" /\ bound
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause SILENCE: not in doubt: nothing was started
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause SILENCE: no answer although asked
     /\ state = "Transferring" /\ (asked \/ ~doubt)
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* STAY: in doubt and not asked yet: ask first
     /\ state = "Transferring" /\ ~asked /\ doubt
     /\ asked' = TRUE
     /\ asks' = <<"SEND_QUERY", "ARM_SILENCE">>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt>>
  \/ \* IGNORE: stale
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: stale
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* PAIRING, from the clock: the pairing deadline
On_PAIRING ==
  \/ \* FAIL, cause NO_ANNOUNCE: a leg of the other engine never arrived, at one rank or at all (HalfOpenEnds)
     /\ state = "Bootstrapping" /\ ~met
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: stale: the legs have met
     /\ state = "Bootstrapping" /\ met
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: stale: the legs have met
     /\ state = "WaitingForInput"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: stale: the legs have met
     /\ state = "Transferring"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: stale
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: stale
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* TOTAL, from the clock: the total deadline
On_TOTAL ==
  \/ \* FAIL, cause TOTAL_DEADLINE: nothing re-arms the total deadline
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause TOTAL_DEADLINE: W has a deadline here (Q09)
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause TOTAL_DEADLINE: T has a deadline here (Q09)
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: stale
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: stale
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* PEER_LOST, from the process: a receiver rank's process was declared lost, or its link is over
On_PEER_LOST ==
  \/ \* FAIL, cause PEER_LOST: the attempt lived on that link
     /\ state = "Bootstrapping" /\ bound
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause PEER_LOST: the attempt lived on that link
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause PEER_LOST: leases wait for fence(peer)
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: it had concluded
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: over already; the fence releases what is left
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

\* SHUTDOWN, from the process: this process stops
On_SHUTDOWN ==
  \/ \* FAIL, cause SHUTDOWN: the peer hears of it before the process goes (J01)
     /\ state = "Bootstrapping"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause SHUTDOWN: the peer hears of it before the process goes
     /\ state = "WaitingForInput"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* FAIL, cause SHUTDOWN: memory stays until the reader has drained (J01)
     /\ state = "Transferring"
     /\ state' = "Failed"
     /\ asks' = <<"SEND_ABORT", "CLOSE">>
     /\ UNCHANGED <<bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: over already
     /\ state = "Success"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>
  \/ \* IGNORE: over already
     /\ state = "Failed"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, bound, met, push, plan, doubt, asked>>

Never(event) ==
  \/ event = "META" /\
       \/ (state = "Bootstrapping" /\ ~bound) \* the core pairs a leg before it hands on META
  \/ event = "PEER_FAILED" /\
       \/ (state = "Bootstrapping" /\ ~bound) \* an unbound leg has no peer; the core keeps such an ABORT as a tombstone (Q13)
  \/ event = "CONCLUDED" /\
       \/ (state = "Bootstrapping" /\ ~bound) \* an unbound leg has no peer
  \/ event = "LIVE" /\
       \/ (state = "Bootstrapping" /\ ~bound) \* an unbound leg has no peer
  \/ event = "QUERIED" /\
       \/ (state = "Bootstrapping" /\ ~bound) \* the core answers for attempts that no leg is bound to
  \/ event = "PASSED" /\
       \/ (state = "Bootstrapping" /\ ~bound) \* an unbound leg has no gen
  \/ event = "SUPERSEDED" /\
       \/ (state = "Bootstrapping" /\ ~bound) \* an unbound leg has no gen
  \/ event = "STARTED" /\
       \/ (state = "Bootstrapping") \* parts start only after META of every rank
       \/ (state = "Success") \* everything was started before
  \/ event = "SKIPPED" /\
       \/ (state = "Bootstrapping") \* parts start only after META of every rank
       \/ (state = "Success") \* everything was started before
       \/ (state = "Failed") \* admission is closed: nothing is looked at
  \/ event = "OP_DONE" /\
       \/ (state = "Bootstrapping") \* nothing was started
       \/ (state = "WaitingForInput") \* nothing was started
       \/ (state = "Transferring" /\ ~push) \* operations of a pull are the receiver's
       \/ (state = "Success" /\ ~push) \* operations of a pull are the receiver's
  \/ event = "OP_FAILED" /\
       \/ (state = "Bootstrapping") \* nothing was started
  \/ event = "OP_UNRESOLVED" /\
       \/ (state = "Bootstrapping") \* nothing was started
       \/ (state = "WaitingForInput") \* nothing was started
       \/ (state = "Transferring" /\ ~push) \* operations of a pull are the receiver's
       \/ (state = "Success" /\ ~push) \* operations of a pull are the receiver's
  \/ event = "RESEND" /\
       \/ (state = "Bootstrapping") \* nothing waits for an answer: the receiver re-sends ANNOUNCE until it hears of us
  \/ event = "ASK" /\
       \/ (state = "Bootstrapping" /\ ~bound) \* the silence deadline is armed when bound
  \/ event = "SILENCE" /\
       \/ (state = "Bootstrapping" /\ ~bound) \* the silence deadline is armed when bound
  \/ event = "PEER_LOST" /\
       \/ (state = "Bootstrapping" /\ ~bound) \* an unbound leg is on no link
  \/ FALSE

Refused(event) ==
  \/ event = "SEND" /\
       \/ (state = "Bootstrapping" /\ plan # "open") \* the plan is closed: nothing follows the last chunk (Q15)
       \/ (state = "WaitingForInput" /\ plan # "open") \* the plan is closed: nothing follows the last chunk
       \/ (state = "Transferring" /\ plan # "open") \* the plan is closed: nothing follows the last chunk
       \/ (state = "Success") \* the plan was closed and delivered
  \/ FALSE

Next ==
  \/ \E last \in BOOLEAN : \E rows \in BOOLEAN : \E idle \in BOOLEAN : On_SEND(last, rows, idle)
  \/ On_STARTABLE
  \/ On_ABORT
  \/ \E is_push \in BOOLEAN : \E all \in BOOLEAN : On_BIND(is_push, all)
  \/ \E all \in BOOLEAN : On_META(all)
  \/ On_PLAN_REFUSED
  \/ On_PEER_FAILED
  \/ \E all \in BOOLEAN : On_CONCLUDED(all)
  \/ On_LIVE
  \/ On_QUERIED
  \/ On_PASSED
  \/ On_SUPERSEDED
  \/ \E final \in BOOLEAN : On_STARTED(final)
  \/ \E final \in BOOLEAN : On_SKIPPED(final)
  \/ On_OP_DONE
  \/ On_OP_FAILED
  \/ On_OP_UNRESOLVED
  \/ On_RESEND
  \/ On_ASK
  \/ On_SILENCE
  \/ On_PAIRING
  \/ On_TOTAL
  \/ On_PEER_LOST
  \/ On_SHUTDOWN

Spec == Init /\ [][Next]_vars

\* TerminalAbsorbing: a state that is terminal is never left.
Absorbing == [][state \in Terminal => state' = state]_vars

====
