---- MODULE link ----
(* One connection between two instances.
   Made by `kvpoll docs --write` (or `make docs`) from the table in spec/. Do not edit. *)
VARIABLES
  state, \* where the machine is
  asks \* the effects that the last step asked for, in order

vars == <<state, asks>>
States == {"GREETING", "OPEN", "REFUSED", "OVER"}
Terminal == {"OVER"}

TypeOK ==
  /\ state \in States

Init ==
  /\ state = "GREETING"
  /\ asks = <<>>

\* WELCOME, from the peer: the registrations were compared and agree
On_WELCOME ==
  \/ \* GO: the pair fits: rooms may be announced
     /\ state = "GREETING"
     /\ state' = "OPEN"
     /\ asks' = <<"OPEN_PEER", "ARM_BEAT", "ARM_LOST">>
  \/ \* IGNORE: a copy
     /\ state = "OPEN"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>
  \/ \* IGNORE: late
     /\ state = "REFUSED"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>
  \/ \* IGNORE: a link is never reopened
     /\ state = "OVER"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>

\* MISMATCH, from the peer: the registrations were compared and cannot work; the fields are named
On_MISMATCH ==
  \/ \* GO: refused for this pair; nothing else is disturbed (F08)
     /\ state = "GREETING"
     /\ state' = "REFUSED"
     /\ asks' = <<"FAIL_ROOMS">>
  \/ \* IGNORE: late: it was agreed
     /\ state = "OPEN"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>
  \/ \* IGNORE: a copy
     /\ state = "REFUSED"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>
  \/ \* IGNORE: late
     /\ state = "OVER"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>

\* HEARD, from the peer: any message of the peer on this link
On_HEARD ==
  \/ \* IGNORE: only the answer to our hello counts
     /\ state = "GREETING"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>
  \/ \* STAY: alive
     /\ state = "OPEN"
     /\ asks' = <<"ARM_LOST">>
     /\ UNCHANGED <<state>>
  \/ \* IGNORE: nothing counts on a refused link
     /\ state = "REFUSED"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>
  \/ \* IGNORE: late: answered with LINK_OVER, counts for nothing
     /\ state = "OVER"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>

\* LINK_OVER, from the peer: LINK_OVER, or WRONG_INSTANCE: the peer will not go on with this link
On_LINK_OVER ==
  \/ \* GO: the peer will not have this link
     /\ state = "GREETING"
     /\ state' = "OVER"
     /\ asks' = <<"FAIL_ROOMS">>
  \/ \* GO: it declared us lost, or another process answers there (G08)
     /\ state = "OPEN"
     /\ state' = "OVER"
     /\ asks' = <<"DROP_PEER">>
  \/ \* GO: the peer forgets it, so do we
     /\ state = "REFUSED"
     /\ state' = "OVER"
     /\ asks' = <<>>
  \/ \* IGNORE: both ends agree
     /\ state = "OVER"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>

\* BEAT, from the clock: the heartbeat interval
On_BEAT ==
  \/ \* STAY: a hello may be lost; say it again
     /\ state = "GREETING"
     /\ asks' = <<"SEND_HELLO", "ARM_BEAT">>
     /\ UNCHANGED <<state>>
  \/ \* STAY: we are alive
     /\ state = "OPEN"
     /\ asks' = <<"BEAT", "ARM_BEAT">>
     /\ UNCHANGED <<state>>
  \/ \* IGNORE: stale
     /\ state = "REFUSED"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>
  \/ \* IGNORE: stale
     /\ state = "OVER"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>

\* HELLO_LATE, from the clock: the hello deadline
On_HELLO_LATE ==
  \/ \* GO: nobody answers
     /\ state = "GREETING"
     /\ state' = "OVER"
     /\ asks' = <<"FAIL_ROOMS">>
  \/ \* IGNORE: stale
     /\ state = "OPEN"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>
  \/ \* GO: remembered long enough: a new room tries anew
     /\ state = "REFUSED"
     /\ state' = "OVER"
     /\ asks' = <<>>
  \/ \* IGNORE: stale
     /\ state = "OVER"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>

\* LOST, from the clock: nothing was heard for the peer-lost deadline
On_LOST ==
  \/ \* GO: declared lost: for both ends, for good
     /\ state = "OPEN"
     /\ state' = "OVER"
     /\ asks' = <<"DROP_PEER">>
  \/ \* IGNORE: stale
     /\ state = "OVER"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>

\* DISCONNECTED, from the transport: the connection is gone for good
On_DISCONNECTED ==
  \/ \* GO: nobody is there
     /\ state = "GREETING"
     /\ state' = "OVER"
     /\ asks' = <<"FAIL_ROOMS">>
  \/ \* GO: the connection is gone
     /\ state = "OPEN"
     /\ state' = "OVER"
     /\ asks' = <<"DROP_PEER">>
  \/ \* GO: the peer is gone; its successor may fit
     /\ state = "REFUSED"
     /\ state' = "OVER"
     /\ asks' = <<>>
  \/ \* IGNORE: over already
     /\ state = "OVER"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>

\* CLOSE, from the process: this process ends the link (shutdown, or no room needs it)
On_CLOSE ==
  \/ \* GO: given up before it was open
     /\ state = "GREETING"
     /\ state' = "OVER"
     /\ asks' = <<"FAIL_ROOMS">>
  \/ \* GO: we end it and say so
     /\ state = "OPEN"
     /\ state' = "OVER"
     /\ asks' = <<"DROP_PEER">>
  \/ \* GO: forgotten
     /\ state = "REFUSED"
     /\ state' = "OVER"
     /\ asks' = <<>>
  \/ \* IGNORE: over already
     /\ state = "OVER"
     /\ asks' = <<>>
     /\ UNCHANGED <<state>>

Never(event) ==
  \/ event = "LOST" /\
       \/ (state = "GREETING") \* armed when open
       \/ (state = "REFUSED") \* armed when open
  \/ FALSE

Refused(event) ==
  \/ FALSE

Next ==
  \/ On_WELCOME
  \/ On_MISMATCH
  \/ On_HEARD
  \/ On_LINK_OVER
  \/ On_BEAT
  \/ On_HELLO_LATE
  \/ On_LOST
  \/ On_DISCONNECTED
  \/ On_CLOSE

Spec == Init /\ [][Next]_vars

\* TerminalAbsorbing: a state that is terminal is never left.
Absorbing == [][state \in Terminal => state' = state]_vars

====
