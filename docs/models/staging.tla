---- MODULE staging ----
(* One request for a staging slot.
   Made by `kvpoll docs --write` (or `make docs`) from the table in spec/. Do not edit. *)
VARIABLES
  state, \* where the machine is
  touched, \* something may touch the slot: an operation of ours, or a peer that has the grant
  asks \* the effects that the last step asked for, in order

vars == <<state, touched, asks>>
States == {"UNASKED", "WAITING", "GRANTED", "READY", "DRAINING", "BACK", "REFUSED"}
Terminal == {"BACK", "REFUSED"}

TypeOK ==
  /\ state \in States
  /\ touched \in BOOLEAN

Init ==
  /\ state = "UNASKED"
  /\ touched = FALSE
  /\ asks = <<>>

\* ASK, from the peer: a slot is asked for, for one chunk
On_ASK(fits, free, place) ==
  \/ \* GO: a free slot and nobody before it
     /\ state = "UNASKED" /\ fits /\ free
     /\ state' = "GRANTED"
     /\ asks' = <<"TAKE_SLOT", "SEND_GRANT">>
     /\ UNCHANGED <<touched>>
  \/ \* GO: exhaustion is admission: it waits, no thread does
     /\ state = "UNASKED" /\ (fits /\ ~free) /\ place
     /\ state' = "WAITING"
     /\ asks' = <<"JOIN_QUEUE">>
     /\ UNCHANGED <<touched>>
  \/ \* FAIL, cause LIMIT: the queue is full, and the answer says how long it is
     /\ state = "UNASKED" /\ (fits /\ ~free) /\ ~place
     /\ state' = "REFUSED"
     /\ asks' = <<"SEND_NO_SLOT">>
     /\ UNCHANGED <<touched>>
  \/ \* FAIL, cause LIMIT: no slot will ever do; the answer says how large one is
     /\ state = "UNASKED" /\ ~fits
     /\ state' = "REFUSED"
     /\ asks' = <<"SEND_NO_SLOT">>
     /\ UNCHANGED <<touched>>
  \/ \* IGNORE: a copy: it keeps its place
     /\ state = "WAITING"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* IGNORE: the grant was lost, or this is a copy: say it again
     /\ state = "GRANTED"
     /\ asks' = <<"SEND_GRANT">>
     /\ UNCHANGED <<state, touched>>
  \/ \* IGNORE: late: it has what it asked for
     /\ state = "READY"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* IGNORE: late: its room is over, or it has been served
     /\ state = "DRAINING"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* IGNORE: late: a request is granted once
     /\ state = "BACK"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* IGNORE: the answer was lost, or this is a copy: say it again
     /\ state = "REFUSED"
     /\ asks' = <<"SEND_NO_SLOT">>
     /\ UNCHANGED <<state, touched>>

\* TURN, from the process: a slot is free, and this request is the first in the queue
On_TURN ==
  \/ \* GO: first come, first served
     /\ state = "WAITING"
     /\ state' = "GRANTED"
     /\ asks' = <<"TAKE_SLOT", "SEND_GRANT">>
     /\ UNCHANGED <<touched>>

\* START, from the transport: from here on something may touch the slot
On_START ==
  \/ \* STAY: from here on only a proof frees it
     /\ state = "GRANTED"
     /\ touched' = TRUE
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>
  \/ \* STAY: it is read
     /\ state = "READY"
     /\ touched' = TRUE
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>

\* FILLED, from the peer: the whole chunk is in the slot; who wrote it writes no more
On_FILLED ==
  \/ \* IGNORE: nothing was granted: it counts for nothing
     /\ state = "UNASKED"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* IGNORE: nothing was granted: it counts for nothing
     /\ state = "WAITING"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* GO: who reads it may begin
     /\ state = "GRANTED"
     /\ state' = "READY"
     /\ asks' = <<"SLOT_READY">>
     /\ UNCHANGED <<touched>>
  \/ \* IGNORE: a copy
     /\ state = "READY"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* IGNORE: late: nobody reads it
     /\ state = "DRAINING"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* IGNORE: late
     /\ state = "BACK"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* IGNORE: nothing was granted: it counts for nothing
     /\ state = "REFUSED"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>

\* QUIET, from the transport: nothing can touch the slot any more (drained and fenced count)
On_QUIET ==
  \/ \* IGNORE: nothing was granted
     /\ state = "UNASKED"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* IGNORE: nothing was granted
     /\ state = "WAITING"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* STAY: the copy into it ended, or failed: the slot is still its own
     /\ state = "GRANTED" /\ touched
     /\ touched' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>
  \/ \* IGNORE: late
     /\ state = "GRANTED" /\ ~touched
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* STAY: nobody reads it now
     /\ state = "READY" /\ touched
     /\ touched' = FALSE
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>
  \/ \* IGNORE: late
     /\ state = "READY" /\ ~touched
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* GO: the last one is out: exactly now it is free
     /\ state = "DRAINING"
     /\ state' = "BACK"
     /\ asks' = <<"RETURN_SLOT">>
     /\ UNCHANGED <<touched>>
  \/ \* IGNORE: late
     /\ state = "BACK"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* IGNORE: nothing was granted
     /\ state = "REFUSED"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>

\* FREED, from the engine: what was in the slot was taken out of it
On_FREED ==
  \/ \* GO: one reader is done, another operation is not
     /\ state = "READY" /\ touched
     /\ state' = "DRAINING"
     /\ asks' = <<>>
     /\ UNCHANGED <<touched>>
  \/ \* GO: the chunk is where it belongs
     /\ state = "READY" /\ ~touched
     /\ state' = "BACK"
     /\ asks' = <<"RETURN_SLOT">>
     /\ UNCHANGED <<touched>>
  \/ \* IGNORE: the reader ended after its room
     /\ state = "DRAINING"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* IGNORE: it came back with the end of its room: once is enough
     /\ state = "BACK"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>

\* CLOSE, from the process: the room is over
On_CLOSE ==
  \/ \* GO: it holds nothing but its place
     /\ state = "WAITING"
     /\ state' = "BACK"
     /\ asks' = <<"LEAVE_QUEUE">>
     /\ UNCHANGED <<touched>>
  \/ \* GO: the room is over, the slot is not (A01, A02)
     /\ state = "GRANTED" /\ touched
     /\ state' = "DRAINING"
     /\ asks' = <<>>
     /\ UNCHANGED <<touched>>
  \/ \* GO: never touched: back at once
     /\ state = "GRANTED" /\ ~touched
     /\ state' = "BACK"
     /\ asks' = <<"RETURN_SLOT">>
     /\ UNCHANGED <<touched>>
  \/ \* GO: the room is over, the slot is not (A01, A02)
     /\ state = "READY" /\ touched
     /\ state' = "DRAINING"
     /\ asks' = <<>>
     /\ UNCHANGED <<touched>>
  \/ \* GO: nobody will read it
     /\ state = "READY" /\ ~touched
     /\ state' = "BACK"
     /\ asks' = <<"RETURN_SLOT">>
     /\ UNCHANGED <<touched>>
  \/ \* IGNORE: it was served; what is in flight decides
     /\ state = "DRAINING"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* IGNORE: over already
     /\ state = "BACK"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>
  \/ \* IGNORE: over already
     /\ state = "REFUSED"
     /\ asks' = <<>>
     /\ UNCHANGED <<state, touched>>

Never(event) ==
  \/ event = "TURN" /\
       \/ (state = "UNASKED") \* it is not in the queue
       \/ (state = "GRANTED") \* it has its slot and left the queue
       \/ (state = "READY") \* it has its slot and left the queue
       \/ (state = "DRAINING") \* it has its slot and left the queue
       \/ (state = "BACK") \* it left the queue
       \/ (state = "REFUSED") \* it was never in the queue
  \/ event = "START" /\
       \/ (state = "UNASKED") \* nothing starts on a slot that is not granted
       \/ (state = "WAITING") \* nothing starts on a slot that is not granted
       \/ (state = "DRAINING") \* admission is closed
       \/ (state = "BACK") \* admission is closed
       \/ (state = "REFUSED") \* nothing starts on a slot that is not granted
  \/ event = "CLOSE" /\
       \/ (state = "UNASKED") \* only requests that were made are told
  \/ FALSE

Refused(event) ==
  \/ event = "FREED" /\
       \/ (state = "UNASKED") \* there is no slot to free
       \/ (state = "WAITING") \* there is no slot to free
       \/ (state = "GRANTED") \* nothing is in it yet: wait for ready, or close the room
       \/ (state = "REFUSED") \* there is no slot to free
  \/ FALSE

Next ==
  \/ \E fits \in BOOLEAN : \E free \in BOOLEAN : \E place \in BOOLEAN : On_ASK(fits, free, place)
  \/ On_TURN
  \/ On_START
  \/ On_FILLED
  \/ On_QUIET
  \/ On_FREED
  \/ On_CLOSE

Spec == Init /\ [][Next]_vars

\* TerminalAbsorbing: a state that is terminal is never left.
Absorbing == [][state \in Terminal => state' = state]_vars

====
