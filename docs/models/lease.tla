---- MODULE lease ----
(* Who may touch one piece of memory.
   Made by `kvpoll docs --write` (or `make docs`) from the table in spec/. Do not edit. *)
VARIABLES
  state, \* where the machine is
  own, \* an operation that we started is not quiescent
  theirs, \* a peer may have started an operation that is not quiescent
  over, \* the room is over: nothing new may start
  asks \* the effects that the last step asked for, in order

vars == <<state, own, theirs, over, asks>>
States == {"FREE", "HELD", "IN_FLIGHT", "DRAINING", "QUARANTINED", "HANDED"}
Terminal == {}

TypeOK ==
  /\ state \in States
  /\ own \in BOOLEAN
  /\ theirs \in BOOLEAN
  /\ over \in BOOLEAN

Init ==
  /\ state = "FREE"
  /\ own = FALSE
  /\ theirs = FALSE
  /\ over = FALSE
  /\ asks = <<>>

\* TAKE, from the engine: the memory is lent to the room
On_TAKE ==
  \/ \* GO: lent
     /\ state = "FREE"
     /\ state' = "HELD"
     /\ asks' = <<>>
     /\ UNCHANGED <<own, theirs, over>>

\* START, from the transport: an operation of ours on it was admitted to a queue
On_START ==
  \/ \* GO: from admission on it counts as started (CountExact)
     /\ state = "HELD"
     /\ state' = "IN_FLIGHT"
     /\ own' = TRUE
     /\ asks' = <<>>
     /\ UNCHANGED <<theirs, over>>
  \/ \* STAY: one more operation
     /\ state = "IN_FLIGHT"
     /\ own' = TRUE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, theirs, over>>

\* EXPOSE, from the transport: the peer was told how to reach it
On_EXPOSE ==
  \/ \* GO: from here on only the peer's word or a fence frees it
     /\ state = "HELD"
     /\ state' = "IN_FLIGHT"
     /\ theirs' = TRUE
     /\ asks' = <<>>
     /\ UNCHANGED <<own, over>>
  \/ \* STAY: one more peer
     /\ state = "IN_FLIGHT"
     /\ theirs' = TRUE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, over>>

\* QUIET, from the transport: started - quiescent of our operations on it is zero (fenced counts as quiescent)
On_QUIET ==
  \/ \* IGNORE: late
     /\ state = "FREE"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* IGNORE: nothing was in flight
     /\ state = "HELD"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* GO: quiescent
     /\ state = "IN_FLIGHT" /\ own /\ ~theirs
     /\ state' = "HELD"
     /\ own' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<theirs, over>>
  \/ \* STAY: the peer may still touch it
     /\ state = "IN_FLIGHT" /\ own /\ theirs
     /\ own' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, theirs, over>>
  \/ \* IGNORE: nothing of ours was in flight
     /\ state = "IN_FLIGHT" /\ ~own
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* GO: the end that starts operations has none left
     /\ state = "DRAINING" /\ own /\ ~theirs
     /\ state' = "HANDED"
     /\ own' = FALSE
     /\ theirs' = FALSE
     /\ over' = FALSE
     /\ asks' = <<"HAND_BACK">>
  \/ \* STAY: the peer may still touch it
     /\ state = "DRAINING" /\ own /\ theirs
     /\ own' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, theirs, over>>
  \/ \* IGNORE: nothing of ours was in flight
     /\ state = "DRAINING" /\ ~own
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* GO: fenced
     /\ state = "QUARANTINED" /\ (own /\ ~theirs) /\ over
     /\ state' = "HANDED"
     /\ own' = FALSE
     /\ theirs' = FALSE
     /\ over' = FALSE
     /\ asks' = <<"HAND_BACK">>
  \/ \* GO: fenced before the room was closed
     /\ state = "QUARANTINED" /\ (own /\ ~theirs) /\ ~over
     /\ state' = "HELD"
     /\ own' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<theirs, over>>
  \/ \* STAY: the peer may still touch it
     /\ state = "QUARANTINED" /\ own /\ theirs
     /\ own' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, theirs, over>>
  \/ \* IGNORE: nothing of ours was in flight
     /\ state = "QUARANTINED" /\ ~own
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* IGNORE: late
     /\ state = "HANDED"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>

\* DRAINED, from the peer: every peer that could touch it has drained or is fenced
On_DRAINED ==
  \/ \* IGNORE: late: the word is given again when asked again
     /\ state = "FREE"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* IGNORE: nothing was exposed
     /\ state = "HELD"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* GO: every planned part arrived, or the peer gave it up
     /\ state = "IN_FLIGHT" /\ theirs /\ ~own
     /\ state' = "HELD"
     /\ theirs' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<own, over>>
  \/ \* STAY: our own operation may still touch it
     /\ state = "IN_FLIGHT" /\ theirs /\ own
     /\ theirs' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, over>>
  \/ \* IGNORE: nothing was exposed
     /\ state = "IN_FLIGHT" /\ ~theirs
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* GO: its drain word, or a fence (A03)
     /\ state = "DRAINING" /\ theirs /\ ~own
     /\ state' = "HANDED"
     /\ own' = FALSE
     /\ theirs' = FALSE
     /\ over' = FALSE
     /\ asks' = <<"HAND_BACK">>
  \/ \* STAY: our own operation may still touch it (A15)
     /\ state = "DRAINING" /\ theirs /\ own
     /\ theirs' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, over>>
  \/ \* IGNORE: nothing was exposed
     /\ state = "DRAINING" /\ ~theirs
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* GO: fenced, or drained after all
     /\ state = "QUARANTINED" /\ (theirs /\ ~own) /\ over
     /\ state' = "HANDED"
     /\ own' = FALSE
     /\ theirs' = FALSE
     /\ over' = FALSE
     /\ asks' = <<"HAND_BACK">>
  \/ \* GO: fenced before the room was closed
     /\ state = "QUARANTINED" /\ (theirs /\ ~own) /\ ~over
     /\ state' = "HELD"
     /\ theirs' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<own, over>>
  \/ \* STAY: our own operation is unresolved
     /\ state = "QUARANTINED" /\ theirs /\ own
     /\ theirs' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, over>>
  \/ \* IGNORE: nothing was exposed
     /\ state = "QUARANTINED" /\ ~theirs
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* IGNORE: late
     /\ state = "HANDED"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>

\* CLOSE, from the process: the room is over
On_CLOSE ==
  \/ \* IGNORE: late
     /\ state = "FREE"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* GO: never touched: back at once
     /\ state = "HELD"
     /\ state' = "HANDED"
     /\ asks' = <<"HAND_BACK">>
     /\ UNCHANGED <<own, theirs, over>>
  \/ \* GO: the room is over, the memory is not (A01, A02)
     /\ state = "IN_FLIGHT"
     /\ state' = "DRAINING"
     /\ over' = TRUE
     /\ asks' = <<>>
     /\ UNCHANGED <<own, theirs>>
  \/ \* IGNORE: closed already
     /\ state = "DRAINING"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* STAY: the room is over
     /\ state = "QUARANTINED"
     /\ over' = TRUE
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs>>
  \/ \* IGNORE: closed already
     /\ state = "HANDED"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>

\* UNRESOLVED, from the transport: an operation of ours on it may still be in flight
On_UNRESOLVED ==
  \/ \* GO: unresolved is not free (A18)
     /\ state = "IN_FLIGHT" /\ own
     /\ state' = "QUARANTINED"
     /\ asks' = <<"NOTE_QUARANTINE">>
     /\ UNCHANGED <<own, theirs, over>>
  \/ \* GO: unresolved is not free
     /\ state = "DRAINING" /\ own
     /\ state' = "QUARANTINED"
     /\ asks' = <<"NOTE_QUARANTINE">>
     /\ UNCHANGED <<own, theirs, over>>
  \/ \* IGNORE: one more
     /\ state = "QUARANTINED"
     /\ asks' = <<"NOTE_QUARANTINE">>
     /\ UNCHANGED <<state, own, theirs, over>>

\* PEER_UNRESOLVED, from the peer: ABORT_ACK(quarantined): an operation of the peer may still be in flight
On_PEER_UNRESOLVED ==
  \/ \* IGNORE: late
     /\ state = "FREE"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* IGNORE: nothing was exposed
     /\ state = "HELD"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* GO: its attempt is over; the memory waits for fence(peer)
     /\ state = "IN_FLIGHT" /\ theirs
     /\ state' = "QUARANTINED"
     /\ asks' = <<"NOTE_QUARANTINE">>
     /\ UNCHANGED <<own, theirs, over>>
  \/ \* IGNORE: nothing was exposed
     /\ state = "IN_FLIGHT" /\ ~theirs
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* GO: waits for fence(peer)
     /\ state = "DRAINING" /\ theirs
     /\ state' = "QUARANTINED"
     /\ asks' = <<"NOTE_QUARANTINE">>
     /\ UNCHANGED <<own, theirs, over>>
  \/ \* IGNORE: it has drained since
     /\ state = "DRAINING" /\ ~theirs
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* IGNORE: known
     /\ state = "QUARANTINED"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>
  \/ \* IGNORE: it had drained
     /\ state = "HANDED"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, own, theirs, over>>

\* PICKED, from the engine: the engine read the release
On_PICKED ==
  \/ \* GO: the engine knows: exactly once (A11, A12)
     /\ state = "HANDED"
     /\ state' = "FREE"
     /\ asks' = <<>>
     /\ UNCHANGED <<own, theirs, over>>

Never(event) ==
  \/ event = "TAKE" /\
       \/ (state = "HELD") \* lent once
       \/ (state = "IN_FLIGHT") \* lent once
       \/ (state = "DRAINING") \* lent once
       \/ (state = "QUARANTINED") \* lent once
       \/ (state = "HANDED") \* not picked yet
  \/ event = "START" /\
       \/ (state = "FREE") \* nothing starts on memory that is not lent
       \/ (state = "DRAINING") \* admission is closed
       \/ (state = "QUARANTINED") \* admission is closed by the same failure
       \/ (state = "HANDED") \* admission is closed
  \/ event = "EXPOSE" /\
       \/ (state = "FREE") \* nothing is exposed that is not lent
       \/ (state = "DRAINING") \* admission is closed
       \/ (state = "QUARANTINED") \* admission is closed by the same failure
       \/ (state = "HANDED") \* admission is closed
  \/ event = "UNRESOLVED" /\
       \/ (state = "FREE") \* it was counted until it was resolved
       \/ (state = "HELD") \* nothing was started
       \/ (state = "IN_FLIGHT" /\ ~own) \* nothing of ours was in flight
       \/ (state = "DRAINING" /\ ~own) \* nothing of ours was in flight
       \/ (state = "HANDED") \* it was counted until it was resolved
  \/ event = "PICKED" /\
       \/ (state = "FREE") \* handed back once, picked once
       \/ (state = "HELD") \* not handed back
       \/ (state = "IN_FLIGHT") \* not handed back
       \/ (state = "DRAINING") \* not handed back
       \/ (state = "QUARANTINED") \* not handed back
  \/ FALSE

Refused(event) ==
  \/ FALSE

Next ==
  \/ On_TAKE
  \/ On_START
  \/ On_EXPOSE
  \/ On_QUIET
  \/ On_DRAINED
  \/ On_CLOSE
  \/ On_UNRESOLVED
  \/ On_PEER_UNRESOLVED
  \/ On_PICKED

Spec == Init /\ [][Next]_vars

====
