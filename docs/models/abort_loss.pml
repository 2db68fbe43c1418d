/* abort-loss: Either side aborts, and a message is lost.
   network=reordering aborts=1 losses=1
   Made by `kvpoll docs --write` (or `make docs`) from spec/ and model_tests/declared/. Do not edit. */

#define KVPoll_Failed 0
#define KVPoll_Bootstrapping 1
#define KVPoll_WaitingForInput 2
#define KVPoll_Transferring 3
#define KVPoll_Success 4
#define LeaseState_FREE 0
#define LeaseState_HELD 1
#define LeaseState_IN_FLIGHT 2
#define LeaseState_DRAINING 3
#define LeaseState_QUARANTINED 4
#define LeaseState_HANDED 5
#define plan_open 0
#define plan_closed 1
#define plan_empty 2

/* sender: The prefill side of one attempt at one rank. */
byte sender_state = KVPoll_Bootstrapping;
bit sender_bound = 0; /* an attempt of a receiver engine is paired with this leg */
bit sender_met = 0; /* every receiver rank of that attempt has announced itself */
bit sender_push = 0; /* the pair's transport is a push transport (known when bound) */
byte sender_plan = plan_open; /* may the engine still send; empty: this rank owns no rows */
bit sender_doubt = 0; /* the receiver may have succeeded without us hearing of it (rule 3) */
bit sender_asked = 0; /* a QUERY went out since the peer last named this attempt as live */
/* copy0: Who may touch one piece of memory. */
byte copy0_state = LeaseState_FREE;
bit copy0_own = 0; /* an operation that we started is not quiescent */
bit copy0_theirs = 0; /* a peer may have started an operation that is not quiescent */
bit copy0_over = 0; /* the room is over: nothing new may start */
/* s_access: Who may touch one piece of memory. */
byte s_access_state = LeaseState_FREE;
bit s_access_own = 0; /* an operation that we started is not quiescent */
bit s_access_theirs = 0; /* a peer may have started an operation that is not quiescent */
bit s_access_over = 0; /* the room is over: nothing new may start */
/* receiver: The decode side of one attempt at one rank. */
byte receiver_state = KVPoll_Bootstrapping;
bit receiver_linked = 0; /* the link to every sender rank is open, so the attempt was announced */
bit receiver_push = 0; /* the transport that we picked pushes */
bit receiver_meta = 0; /* the engine has handed pages over */
bit receiver_bound = 0; /* every sender rank said that a leg is paired with this attempt */
bit receiver_whole = 0; /* for every planned (sender rank, layers, kind) the ranges that arrived cover [prefix, N) */
bit receiver_gated = 0; /* a local gate (staging scatter, cache restore) is still closed */
bit receiver_busy = 0; /* the engine is committing: it writes its pages right now */
/* buffer: Who may touch one piece of memory. */
byte buffer_state = LeaseState_FREE;
bit buffer_own = 0; /* an operation that we started is not quiescent */
bit buffer_theirs = 0; /* a peer may have started an operation that is not quiescent */
bit buffer_over = 0; /* the room is over: nothing new may start */
/* pages: Who may touch one piece of memory. */
byte pages_state = LeaseState_FREE;
bit pages_own = 0; /* an operation that we started is not quiescent */
bit pages_theirs = 0; /* a peer may have started an operation that is not quiescent */
bit pages_over = 0; /* the room is over: nothing new may start */
/* r_access: Who may touch one piece of memory. */
byte r_access_state = LeaseState_HELD;
bit r_access_own = 0; /* an operation that we started is not quiescent */
bit r_access_theirs = 0; /* a peer may have started an operation that is not quiescent */
bit r_access_over = 0; /* the room is over: nothing new may start */

byte op0 = 0; /* the operation that moves this part */
bit s_peer = 0; /* an attempt is paired with this leg */
bit s_tomb = 0; /* the attempt was over before it was paired: nothing pairs it any more */
bit s_meta = 0; /* the receiver said where data goes */
bit s_failed = 0; /* the receiver said that it failed */
bit s_concluded = 0; /* the receiver said that it committed */
bit s_acked = 0; /* the receiver answered our ABORT */
bit s_drained = 0; /* nothing of the receiver can touch our memory */
bit s_total = 0; /* the receiver holds our CLOSE */
bit s_sent = 0; /* parts that the engine handed over */
bit s_seen = 0; /* parts that the receiver holds, as far as it said */
bit s_offered0 = 0; /* this part can be pulled */
bit r_link = 0; /* the link to the sender is open */
bit r_meta = 0; /* the engine handed pages over */
bit r_bound = 0; /* the sender said that a leg is paired with this attempt */
bit r_total = 0; /* the sender closed its plan */
bit r_failed = 0; /* the sender said that it failed */
bit r_acked = 0; /* the sender answered our ABORT */
bit r_drained = 0; /* nothing of the sender can touch our memory */
bit r_over = 0; /* the sender is over, so it needs no conclusion */
bit r_saw_announce = 0; /* the sender holds our ANNOUNCE */
bit r_saw_meta = 0; /* the sender holds our META */
bit r_saw_over = 0; /* the sender holds our CONCLUDE or ABORT */
bit r_ready = 0; /* the engine was told that it can commit */
bit r_heard0 = 0; /* the sender told us of this part */
bit aborts = 1; /* how often it may still happen */
bit losses = 1; /* how often it may still happen */
/* in flight to_sender: 0 ANNOUNCE, 1 META, 2 CONCLUDE, 3 ABORT, 4 ABORT_ACK, 6 QUERY, 7 LIVE, 23 OVER */
int to_sender_0;
int to_sender_1;
/* in flight to_receiver: 0 PART0, 1 CLOSE, 2 ABORT, 3 ABORT_ACK, 5 QUERY, 6 NO_LEG, 7 LIVE, 23 OVER */
int to_receiver_0;
int to_receiver_1;
/* inside a step only */
hidden byte fx, msg;
hidden byte in_quarantined;
hidden byte in_meta;
hidden byte in_parts;
hidden byte in_total;
hidden byte in_answer;
hidden byte in_success;
hidden byte in_drain;
hidden byte in_told0;
hidden byte in_closed;
hidden byte in_heard;
hidden byte sender_arg_last;
hidden byte sender_arg_rows;
hidden byte sender_arg_idle;
hidden byte sender_arg_is_push;
hidden byte sender_arg_all;
hidden byte sender_arg_final;
hidden byte receiver_arg_gates;
hidden byte receiver_arg_all;
hidden byte receiver_arg_whole_now;
hidden byte receiver_arg_is_push;
hidden byte pair[25];

inline done() {
  if :: (!((op0 == 1) || (op0 == 4) || (op0 == 5)) || !(copy0_state == LeaseState_FREE || copy0_state == LeaseState_HANDED)) -> skip :: else -> printf("BROKEN NoFreeInFlight the copy of part 0 went back while it was read\n"); assert(false) fi;
  if :: (!((op0 == 1) || (op0 == 4) || (op0 == 5)) || !(buffer_state == LeaseState_FREE || buffer_state == LeaseState_HANDED)) -> skip :: else -> printf("BROKEN NoFreeInFlight the receive buffer went back while part 0 was written\n"); assert(false) fi;
  if :: (!(receiver_busy == 1) || (!(buffer_state == LeaseState_FREE || buffer_state == LeaseState_HANDED) && !(pages_state == LeaseState_FREE || pages_state == LeaseState_HANDED))) -> skip :: else -> printf("BROKEN NoFreeInFlight memory went back while the engine committed\n"); assert(false) fi;
  if :: (!(sender_state == KVPoll_Success) || (receiver_state == KVPoll_Success)) -> skip :: else -> printf("BROKEN SuccessOrder the sender succeeded and the receiver has not\n"); assert(false) fi;
  if :: (!((sender_state == KVPoll_Failed) && (receiver_state == KVPoll_Success)) || (sender_doubt == 1)) -> skip :: else -> printf("BROKEN SuccessOrder the sender failed without doubt, the receiver succeeded\n"); assert(false) fi;
  if :: (!(receiver_state == KVPoll_Success) || (op0 == 2)) -> skip :: else -> printf("BROKEN CompleteOrNotSuccess the receiver succeeded without every part\n"); assert(false) fi;
  if :: pair[sender_state * 5 + receiver_state] == 0 -> pair[sender_state * 5 + receiver_state] = 1; printf("PAIR %d %d\n", sender_state, receiver_state) :: else fi
}

inline sender_SEND() { /* the engine hands over a chunk */
  if
  :: (sender_state == KVPoll_Bootstrapping && ((sender_plan == plan_open) && (sender_arg_last == 1)) && (sender_arg_rows == 1)) -> /* STAY: prefill first: the parts wait, gathered, for META */
     sender_plan = plan_closed; fx = 0
  :: (sender_state == KVPoll_Bootstrapping && ((sender_plan == plan_open) && (sender_arg_last == 1)) && (!(sender_arg_rows == 1))) -> /* STAY: this rank owns no rows; its plan closes by message once bound */
     sender_plan = plan_empty; fx = 0
  :: (sender_state == KVPoll_Bootstrapping && (sender_plan == plan_open) && (!(sender_arg_last == 1))) || /* STAY: chunked prefill may run ahead of the receiver */
     (sender_state == KVPoll_WaitingForInput && ((sender_plan == plan_open) && (!(sender_arg_last == 1))) && (sender_arg_rows == 1)) || /* STAY: a chunk starts as soon as it is gathered */
     (sender_state == KVPoll_WaitingForInput && ((sender_plan == plan_open) && (!(sender_arg_last == 1))) && (!(sender_arg_rows == 1))) || /* IGNORE: a chunk in which this rank owns no rows */
     (sender_state == KVPoll_Transferring && (sender_plan == plan_open) && (!(sender_arg_last == 1))) || /* STAY: the next chunk starts as soon as it is gathered */
     (sender_state == KVPoll_Failed) -> /* IGNORE: the engine cannot have known yet; nothing is kept */
     fx = 0
  :: (sender_state == KVPoll_Bootstrapping && !(sender_plan == plan_open)) || /* REFUSE: the plan is closed: nothing follows the last chunk (Q15) */
     (sender_state == KVPoll_WaitingForInput && !(sender_plan == plan_open)) || /* REFUSE: the plan is closed: nothing follows the last chunk */
     (sender_state == KVPoll_Transferring && !(sender_plan == plan_open)) || /* REFUSE: the plan is closed: nothing follows the last chunk */
     (sender_state == KVPoll_Success) -> /* REFUSE: the plan was closed and delivered */
     printf("BROKEN EngineObeys sender on SEND\n"); assert(false)
  :: (sender_state == KVPoll_WaitingForInput && (((sender_plan == plan_open) && (sender_arg_last == 1)) && (sender_arg_rows == 1)) && (!(sender_arg_idle == 1))) || /* STAY: the last chunk closes the plan with its totals */
     (sender_state == KVPoll_Transferring && ((sender_plan == plan_open) && (sender_arg_last == 1)) && (!(sender_arg_idle == 1))) -> /* STAY: the last chunk closes the plan with its totals */
     sender_plan = plan_closed; fx = 1
  :: (sender_state == KVPoll_WaitingForInput && (((sender_plan == plan_open) && (sender_arg_last == 1)) && (sender_arg_rows == 1)) && (sender_arg_idle == 1)) -> /* GO: every part went to nobody: as good as an empty plan */
     sender_plan = plan_closed; sender_doubt = 1; sender_state = KVPoll_Transferring; fx = 1
  :: (sender_state == KVPoll_WaitingForInput && ((sender_plan == plan_open) && (sender_arg_last == 1)) && (!(sender_arg_rows == 1))) -> /* GO: an empty plan is in doubt from its closing message on */
     sender_plan = plan_empty; sender_doubt = 1; sender_state = KVPoll_Transferring; fx = 1
  :: (sender_state == KVPoll_Transferring && ((sender_plan == plan_open) && (sender_arg_last == 1)) && (sender_arg_idle == 1)) -> /* STAY: everything was started before: in doubt from here on */
     sender_plan = plan_closed; sender_doubt = 1; fx = 1
  fi;
  if
  :: fx == 1 -> /* SEND_CLOSE */
     if
     :: s_peer ->
        to_receiver_0 = to_receiver_0 | 2; /* CLOSE */
     :: else
     fi;
  :: else
  fi
}

inline copy0_TAKE() { /* the memory is lent to the room */
  if
  :: (copy0_state == LeaseState_FREE) -> /* GO: lent */
     copy0_state = LeaseState_HELD; fx = 0
  :: (copy0_state == LeaseState_HELD) || /* NEVER: lent once */
     (copy0_state == LeaseState_IN_FLIGHT) || /* NEVER: lent once */
     (copy0_state == LeaseState_DRAINING) || /* NEVER: lent once */
     (copy0_state == LeaseState_QUARANTINED) || /* NEVER: lent once */
     (copy0_state == LeaseState_HANDED) -> /* NEVER: not picked yet */
     printf("BROKEN TotalHandlers copy0 on TAKE\n"); assert(false)
  fi
}

inline copy0_START() { /* an operation of ours on it was admitted to a queue */
  if
  :: (copy0_state == LeaseState_FREE) || /* NEVER: nothing starts on memory that is not lent */
     (copy0_state == LeaseState_DRAINING) || /* NEVER: admission is closed */
     (copy0_state == LeaseState_QUARANTINED) || /* NEVER: admission is closed by the same failure */
     (copy0_state == LeaseState_HANDED) -> /* NEVER: admission is closed */
     printf("BROKEN TotalHandlers copy0 on START\n"); assert(false)
  :: (copy0_state == LeaseState_HELD) -> /* GO: from admission on it counts as started (CountExact) */
     copy0_own = 1; copy0_state = LeaseState_IN_FLIGHT; fx = 0
  :: (copy0_state == LeaseState_IN_FLIGHT) -> /* STAY: one more operation */
     copy0_own = 1; fx = 0
  fi
}

inline copy0_QUIET() { /* started - quiescent of our operations on it is zero (fenced counts as quiescent) */
  if
  :: (copy0_state == LeaseState_FREE) || /* IGNORE: late */
     (copy0_state == LeaseState_HELD) || /* IGNORE: nothing was in flight */
     (copy0_state == LeaseState_IN_FLIGHT && !(copy0_own == 1)) || /* IGNORE: nothing of ours was in flight */
     (copy0_state == LeaseState_DRAINING && !(copy0_own == 1)) || /* IGNORE: nothing of ours was in flight */
     (copy0_state == LeaseState_QUARANTINED && !(copy0_own == 1)) || /* IGNORE: nothing of ours was in flight */
     (copy0_state == LeaseState_HANDED) -> /* IGNORE: late */
     fx = 0
  :: (copy0_state == LeaseState_IN_FLIGHT && (copy0_own == 1) && (!(copy0_theirs == 1))) || /* GO: quiescent */
     (copy0_state == LeaseState_QUARANTINED && ((copy0_own == 1) && (!(copy0_theirs == 1))) && (!(copy0_over == 1))) -> /* GO: fenced before the room was closed */
     copy0_own = 0; copy0_state = LeaseState_HELD; fx = 0
  :: (copy0_state == LeaseState_IN_FLIGHT && (copy0_own == 1) && (copy0_theirs == 1)) || /* STAY: the peer may still touch it */
     (copy0_state == LeaseState_DRAINING && (copy0_own == 1) && (copy0_theirs == 1)) || /* STAY: the peer may still touch it */
     (copy0_state == LeaseState_QUARANTINED && (copy0_own == 1) && (copy0_theirs == 1)) -> /* STAY: the peer may still touch it */
     copy0_own = 0; fx = 0
  :: (copy0_state == LeaseState_DRAINING && (copy0_own == 1) && (!(copy0_theirs == 1))) || /* GO: the end that starts operations has none left */
     (copy0_state == LeaseState_QUARANTINED && ((copy0_own == 1) && (!(copy0_theirs == 1))) && (copy0_over == 1)) -> /* GO: fenced */
     copy0_own = 0; copy0_theirs = 0; copy0_over = 0; copy0_state = LeaseState_HANDED; fx = 1
  fi;
  if
  :: fx == 1 -> /* HAND_BACK */
   skip
  :: else
  fi
}

inline copy0_EXPOSE() { /* the peer was told how to reach it */
  if
  :: (copy0_state == LeaseState_FREE) || /* NEVER: nothing is exposed that is not lent */
     (copy0_state == LeaseState_DRAINING) || /* NEVER: admission is closed */
     (copy0_state == LeaseState_QUARANTINED) || /* NEVER: admission is closed by the same failure */
     (copy0_state == LeaseState_HANDED) -> /* NEVER: admission is closed */
     printf("BROKEN TotalHandlers copy0 on EXPOSE\n"); assert(false)
  :: (copy0_state == LeaseState_HELD) -> /* GO: from here on only the peer's word or a fence frees it */
     copy0_theirs = 1; copy0_state = LeaseState_IN_FLIGHT; fx = 0
  :: (copy0_state == LeaseState_IN_FLIGHT) -> /* STAY: one more peer */
     copy0_theirs = 1; fx = 0
  fi
}

inline sender_STARTED_0() { /* a part was admitted to the transport (push) or offered (pull) */
  if
  :: (sender_state == KVPoll_Bootstrapping) || /* NEVER: parts start only after META of every rank */
     (sender_state == KVPoll_Success) -> /* NEVER: everything was started before */
     printf("BROKEN TotalHandlers sender on STARTED\n"); assert(false)
  :: (sender_state == KVPoll_WaitingForInput && (sender_push == 1) && (sender_arg_final == 1)) -> /* GO: the only part is on its way */
     sender_doubt = 1; sender_state = KVPoll_Transferring; fx = 0
  :: (sender_state == KVPoll_WaitingForInput && (sender_push == 1) && (!(sender_arg_final == 1))) -> /* GO: the first part is on its way */
     sender_state = KVPoll_Transferring; fx = 0
  :: (sender_state == KVPoll_WaitingForInput && (!(sender_push == 1)) && (sender_arg_final == 1)) -> /* GO: the only part can be read from now on */
     sender_doubt = 1; sender_state = KVPoll_Transferring; fx = 1
  :: (sender_state == KVPoll_WaitingForInput && (!(sender_push == 1)) && (!(sender_arg_final == 1))) -> /* GO: the first part can be read from now on */
     sender_state = KVPoll_Transferring; fx = 1
  :: (sender_state == KVPoll_Transferring && (sender_push == 1) && (sender_arg_final == 1)) -> /* STAY: the last part is on its way */
     sender_doubt = 1; fx = 0
  :: (sender_state == KVPoll_Transferring && (sender_push == 1) && (!(sender_arg_final == 1))) || /* STAY: one more part is on its way */
     (sender_state == KVPoll_Failed) -> /* IGNORE: admitted just before the failure; its lease waits for it */
     fx = 0
  :: (sender_state == KVPoll_Transferring && (!(sender_push == 1)) && (sender_arg_final == 1)) -> /* STAY: the last part can be read from now on */
     sender_doubt = 1; fx = 1
  :: (sender_state == KVPoll_Transferring && (!(sender_push == 1)) && (!(sender_arg_final == 1))) -> /* STAY: one more part can be read from now on */
     fx = 1
  fi;
  if
  :: fx == 1 -> /* SEND_OFFER */
     to_receiver_0 = to_receiver_0 | 1; /* PART0 */
  :: else
  fi
}

inline s_start_parts() {
  if
  :: (!(sender_state == KVPoll_Success || sender_state == KVPoll_Failed) && (0 < s_sent) && (s_offered0 == 0)) ->
     s_offered0 = 1;
     if
     :: !(copy0_state == LeaseState_FREE || copy0_state == LeaseState_HANDED) ->
        copy0_EXPOSE();
     :: else
     fi;
     sender_arg_final = (!(sender_plan == plan_open) && ((s_sent < 1) || s_offered0));
     sender_STARTED_0();
  :: else
  fi;
}

inline sender_STARTABLE() { /* a part was gathered, or a credit came back */
  if
  :: (sender_state == KVPoll_Bootstrapping) || /* IGNORE: gathered; it waits for META */
     (sender_state == KVPoll_Success) || /* IGNORE: stale: everything was started */
     (sender_state == KVPoll_Failed) -> /* IGNORE: admission is closed; its source lease hears of it */
     fx = 0
  :: (sender_state == KVPoll_WaitingForInput) || /* STAY: read only after the device work that writes it is finished (B01) */
     (sender_state == KVPoll_Transferring) -> /* STAY: one more can start */
     fx = 1
  fi;
  if
  :: fx == 1 -> /* START_PARTS */
     s_start_parts();
  :: else
  fi
}

inline put_to_receiver(number) {
  msg = number;
  if
  :: msg >= 0 && msg < 31 -> to_receiver_0 = to_receiver_0 | (1 << (msg - 0))
  :: msg >= 31 && msg < 62 -> to_receiver_1 = to_receiver_1 | (1 << (msg - 31))
  fi
}

inline s_send_facts() {
  if
  :: (s_peer && ((sender_state == KVPoll_Failed) -> (s_acked == 0) : (s_meta && ((s_seen < ((s_offered0 -> 1 : 0))) || (!(sender_plan == plan_open) && (sender_state == KVPoll_WaitingForInput || sender_state == KVPoll_Transferring) && (s_total == 0))) && !(sender_state == KVPoll_Success)))) ->
     if
     :: (sender_state == KVPoll_Success || sender_state == KVPoll_Failed) ->
        if
        :: (s_access_state == LeaseState_HANDED) ->
           skip
        :: else
        fi;
        put_to_receiver((23 + ((sender_state == KVPoll_Success) -> 1 : 0) * 12 + ((s_access_state == LeaseState_HANDED) -> 1 : ((s_access_state == LeaseState_QUARANTINED) -> 2 : 0)) * 4 + ((s_failed || s_concluded) -> 1 : 0) * 2 + 1)); /* OVER */
     :: else ->
        put_to_receiver((7 + (s_offered0 -> 1 : 0) * 8 + ((!(sender_plan == plan_open) && (sender_state == KVPoll_WaitingForInput || sender_state == KVPoll_Transferring)) -> 1 : 0) * 4 + s_meta * 2 + 1)); /* LIVE */
     fi;
  :: else
  fi;
}

inline sender_RESEND() { /* a fact has had no answer for a re-send interval */
  if
  :: (sender_state == KVPoll_Bootstrapping) -> /* NEVER: nothing waits for an answer: the receiver re-sends ANNOUNCE until it hears of us */
     printf("BROKEN TotalHandlers sender on RESEND\n"); assert(false)
  :: (sender_state == KVPoll_WaitingForInput) || /* STAY: a fact is re-sent until an answer contains it */
     (sender_state == KVPoll_Transferring) || /* STAY: one lost notification must not hang a room (B07) */
     (sender_state == KVPoll_Failed) -> /* STAY: ABORT is re-sent until it is acknowledged */
     fx = 1
  :: (sender_state == KVPoll_Success) -> /* IGNORE: stale: nothing waits for an answer */
     fx = 0
  fi;
  if
  :: fx == 1 -> /* SEND_FACTS */
     s_send_facts();
  :: else
  fi
}

inline s_send_abort() {
  if
  :: s_peer ->
     to_receiver_0 = to_receiver_0 | 4; /* ABORT */
  :: else
  fi;
}

inline copy0_CLOSE() { /* the room is over */
  if
  :: (copy0_state == LeaseState_FREE) || /* IGNORE: late */
     (copy0_state == LeaseState_DRAINING) || /* IGNORE: closed already */
     (copy0_state == LeaseState_HANDED) -> /* IGNORE: closed already */
     fx = 0
  :: (copy0_state == LeaseState_HELD) -> /* GO: never touched: back at once */
     copy0_state = LeaseState_HANDED; fx = 1
  :: (copy0_state == LeaseState_IN_FLIGHT) -> /* GO: the room is over, the memory is not (A01, A02) */
     copy0_over = 1; copy0_state = LeaseState_DRAINING; fx = 0
  :: (copy0_state == LeaseState_QUARANTINED) -> /* STAY: the room is over */
     copy0_over = 1; fx = 0
  fi;
  if
  :: fx == 1 -> /* HAND_BACK */
   skip
  :: else
  fi
}

inline s_answer_abort() {
  if
  :: (s_failed && (sender_state == KVPoll_Success || sender_state == KVPoll_Failed)) ->
     if
     :: (s_access_state == LeaseState_HANDED) ->
        if
        :: 1 ->
           put_to_receiver((3)); /* ABORT_ACK */
        :: else
        fi;
     :: else
     fi;
     if
     :: (s_access_state == LeaseState_QUARANTINED) ->
        put_to_receiver((3 + 1)); /* ABORT_ACK */
     :: else
     fi;
  :: else
  fi;
}

inline s_access_CLOSE() { /* the room is over */
  if
  :: (s_access_state == LeaseState_FREE) || /* IGNORE: late */
     (s_access_state == LeaseState_DRAINING) || /* IGNORE: closed already */
     (s_access_state == LeaseState_HANDED) -> /* IGNORE: closed already */
     fx = 0
  :: (s_access_state == LeaseState_HELD) -> /* GO: never touched: back at once */
     s_access_state = LeaseState_HANDED; fx = 1
  :: (s_access_state == LeaseState_IN_FLIGHT) -> /* GO: the room is over, the memory is not (A01, A02) */
     s_access_over = 1; s_access_state = LeaseState_DRAINING; fx = 0
  :: (s_access_state == LeaseState_QUARANTINED) -> /* STAY: the room is over */
     s_access_over = 1; fx = 0
  fi;
  if
  :: fx == 1 -> /* HAND_BACK */
     s_answer_abort();
  :: else
  fi
}

inline copy0_DRAINED() { /* every peer that could touch it has drained or is fenced */
  if
  :: (copy0_state == LeaseState_FREE) || /* IGNORE: late: the word is given again when asked again */
     (copy0_state == LeaseState_HELD) || /* IGNORE: nothing was exposed */
     (copy0_state == LeaseState_IN_FLIGHT && !(copy0_theirs == 1)) || /* IGNORE: nothing was exposed */
     (copy0_state == LeaseState_DRAINING && !(copy0_theirs == 1)) || /* IGNORE: nothing was exposed */
     (copy0_state == LeaseState_QUARANTINED && !(copy0_theirs == 1)) || /* IGNORE: nothing was exposed */
     (copy0_state == LeaseState_HANDED) -> /* IGNORE: late */
     fx = 0
  :: (copy0_state == LeaseState_IN_FLIGHT && (copy0_theirs == 1) && (!(copy0_own == 1))) || /* GO: every planned part arrived, or the peer gave it up */
     (copy0_state == LeaseState_QUARANTINED && ((copy0_theirs == 1) && (!(copy0_own == 1))) && (!(copy0_over == 1))) -> /* GO: fenced before the room was closed */
     copy0_theirs = 0; copy0_state = LeaseState_HELD; fx = 0
  :: (copy0_state == LeaseState_IN_FLIGHT && (copy0_theirs == 1) && (copy0_own == 1)) || /* STAY: our own operation may still touch it */
     (copy0_state == LeaseState_DRAINING && (copy0_theirs == 1) && (copy0_own == 1)) || /* STAY: our own operation may still touch it (A15) */
     (copy0_state == LeaseState_QUARANTINED && (copy0_theirs == 1) && (copy0_own == 1)) -> /* STAY: our own operation is unresolved */
     copy0_theirs = 0; fx = 0
  :: (copy0_state == LeaseState_DRAINING && (copy0_theirs == 1) && (!(copy0_own == 1))) || /* GO: its drain word, or a fence (A03) */
     (copy0_state == LeaseState_QUARANTINED && ((copy0_theirs == 1) && (!(copy0_own == 1))) && (copy0_over == 1)) -> /* GO: fenced, or drained after all */
     copy0_own = 0; copy0_theirs = 0; copy0_over = 0; copy0_state = LeaseState_HANDED; fx = 1
  fi;
  if
  :: fx == 1 -> /* HAND_BACK */
   skip
  :: else
  fi
}

inline s_drain() {
  if
  :: (s_peer && s_drained) ->
     if
     :: !(copy0_state == LeaseState_FREE || copy0_state == LeaseState_HANDED) ->
        copy0_DRAINED();
     :: else
     fi;
  :: else
  fi;
}

inline s_close() {
  if
  :: !(copy0_state == LeaseState_FREE || copy0_state == LeaseState_HANDED) ->
     copy0_CLOSE();
  :: else
  fi;
  if
  :: s_peer ->
     s_access_CLOSE();
  :: else
  fi;
  s_drain();
}

inline sender_PAIRING() { /* the pairing deadline */
  if
  :: (sender_state == KVPoll_Bootstrapping && !(sender_met == 1)) -> /* FAIL: a leg of the other engine never arrived, at one rank or at all (HalfOpenEnds) */
     sender_state = KVPoll_Failed; fx = 1
  :: (sender_state == KVPoll_Bootstrapping && sender_met == 1) || /* IGNORE: stale: the legs have met */
     (sender_state == KVPoll_WaitingForInput) || /* IGNORE: stale: the legs have met */
     (sender_state == KVPoll_Transferring) || /* IGNORE: stale: the legs have met */
     (sender_state == KVPoll_Success) || /* IGNORE: stale */
     (sender_state == KVPoll_Failed) -> /* IGNORE: stale */
     fx = 0
  fi;
  if
  :: fx == 1 -> /* SEND_ABORT, CLOSE */
     s_send_abort();
     s_close();
  :: else
  fi
}

inline sender_ABORT() { /* the engine gives the request up */
  if
  :: (sender_state == KVPoll_Bootstrapping) || /* FAIL: the peer is told at once; it must not wait for its own deadline (Q08) */
     (sender_state == KVPoll_WaitingForInput) || /* FAIL: nothing was started: this rank may fail alone */
     (sender_state == KVPoll_Transferring) -> /* FAIL: in doubt if everything was started: the receiver may have succeeded */
     sender_state = KVPoll_Failed; fx = 1
  :: (sender_state == KVPoll_Success) || /* IGNORE: too late: the request was handed over (Q03) */
     (sender_state == KVPoll_Failed) -> /* IGNORE: over already; the first cause holds */
     fx = 0
  fi;
  if
  :: fx == 1 -> /* SEND_ABORT, CLOSE */
     s_send_abort();
     s_close();
  :: else
  fi
}

inline buffer_EXPOSE() { /* the peer was told how to reach it */
  if
  :: (buffer_state == LeaseState_FREE) || /* NEVER: nothing is exposed that is not lent */
     (buffer_state == LeaseState_DRAINING) || /* NEVER: admission is closed */
     (buffer_state == LeaseState_QUARANTINED) || /* NEVER: admission is closed by the same failure */
     (buffer_state == LeaseState_HANDED) -> /* NEVER: admission is closed */
     printf("BROKEN TotalHandlers buffer on EXPOSE\n"); assert(false)
  :: (buffer_state == LeaseState_HELD) -> /* GO: from here on only the peer's word or a fence frees it */
     buffer_theirs = 1; buffer_state = LeaseState_IN_FLIGHT; fx = 0
  :: (buffer_state == LeaseState_IN_FLIGHT) -> /* STAY: one more peer */
     buffer_theirs = 1; fx = 0
  fi
}

inline put_to_sender(number) {
  msg = number;
  if
  :: msg >= 0 && msg < 31 -> to_sender_0 = to_sender_0 | (1 << (msg - 0))
  :: msg >= 31 && msg < 62 -> to_sender_1 = to_sender_1 | (1 << (msg - 31))
  fi
}

inline r_send_facts() {
  if
  :: (r_link && ((receiver_state == KVPoll_Failed) -> ((r_acked == 0) || (r_acked && (r_drained == 0) && ((buffer_state == LeaseState_QUARANTINED) || (pages_state == LeaseState_QUARANTINED)))) : ((receiver_state == KVPoll_Success) -> (((r_over == 0) && (r_saw_over == 0)) || (r_acked && (r_drained == 0) && ((buffer_state == LeaseState_QUARANTINED) || (pages_state == LeaseState_QUARANTINED)))) : (!(receiver_whole == 1) && (((r_saw_announce == 0) && (r_bound == 0)) || (r_meta && (receiver_linked == 1) && !(r_saw_meta || r_total || r_heard0))))))) ->
     if
     :: (receiver_state == KVPoll_Success || receiver_state == KVPoll_Failed) ->
        if
        :: ((r_access_state == LeaseState_HANDED) || (receiver_state == KVPoll_Success)) ->
           if :: !((op0 == 1) || (op0 == 4) || (op0 == 5)) -> skip :: else -> printf("BROKEN AckMeansQuiescent the receiver said that it has drained while its operation was in flight\n"); assert(false) fi;
        :: else
        fi;
        put_to_sender((23 + ((receiver_state == KVPoll_Success) -> 1 : 0) * 6 + ((r_access_state == LeaseState_HANDED) -> 1 : ((r_access_state == LeaseState_QUARANTINED) -> 2 : 0)) * 2 + 1)); /* OVER */
     :: else ->
        put_to_sender((7 + ((r_meta && (receiver_linked == 1)) -> 1 : 0) * 8 + (r_heard0) * 4 + r_total * 2 + 1)); /* LIVE */
     fi;
  :: else
  fi;
}

inline receiver_LINKED() { /* the link to a sender rank is open */
  if
  :: (receiver_state == KVPoll_Bootstrapping && !(receiver_arg_all == 1)) -> /* STAY: announced to this rank; other links are still being made */
     receiver_push = receiver_arg_is_push; fx = 1
  :: (receiver_state == KVPoll_Bootstrapping && (receiver_arg_all == 1) && (!(receiver_meta == 1))) -> /* STAY: announced before pages are owned: an early ABORT is addressable */
     receiver_push = receiver_arg_is_push; receiver_linked = 1; fx = 1
  :: (receiver_state == KVPoll_Bootstrapping && ((receiver_arg_all == 1) && (receiver_meta == 1)) && (receiver_arg_is_push == 1)) -> /* GO: one message announces and says where data goes */
     receiver_push = receiver_arg_is_push; receiver_linked = 1; receiver_state = KVPoll_WaitingForInput; fx = 2
  :: (receiver_state == KVPoll_Bootstrapping && ((receiver_arg_all == 1) && (receiver_meta == 1)) && (!(receiver_arg_is_push == 1))) -> /* GO: one message announces and says where data goes */
     receiver_push = receiver_arg_is_push; receiver_linked = 1; receiver_state = KVPoll_WaitingForInput; fx = 3
  :: (receiver_state == KVPoll_WaitingForInput) || /* NEVER: every link is open already */
     (receiver_state == KVPoll_Transferring) || /* NEVER: every link is open already */
     (receiver_state == KVPoll_Success) -> /* NEVER: every link is open already */
     printf("BROKEN TotalHandlers receiver on LINKED\n"); assert(false)
  :: (receiver_state == KVPoll_Failed) -> /* STAY: failed before it was announced there: that rank's leg must not wait for its own deadline */
     fx = 4
  fi;
  if
  :: fx == 1 -> /* SEND_ANNOUNCE */
     to_sender_0 = to_sender_0 | 1; /* ANNOUNCE */
  :: fx == 2 -> /* EXPOSE, SEND_META */
     if
     :: !(buffer_state == LeaseState_FREE || buffer_state == LeaseState_HANDED) ->
        buffer_EXPOSE();
     :: else
     fi;
     to_sender_0 = to_sender_0 | 2; /* META */
  :: fx == 3 -> /* SEND_META */
     to_sender_0 = to_sender_0 | 2; /* META */
  :: fx == 4 -> /* SEND_ANNOUNCE, SEND_FACTS */
     to_sender_0 = to_sender_0 | 1; /* ANNOUNCE */
     r_send_facts();
  :: else
  fi
}

inline pages_TAKE() { /* the memory is lent to the room */
  if
  :: (pages_state == LeaseState_FREE) -> /* GO: lent */
     pages_state = LeaseState_HELD; fx = 0
  :: (pages_state == LeaseState_HELD) || /* NEVER: lent once */
     (pages_state == LeaseState_IN_FLIGHT) || /* NEVER: lent once */
     (pages_state == LeaseState_DRAINING) || /* NEVER: lent once */
     (pages_state == LeaseState_QUARANTINED) || /* NEVER: lent once */
     (pages_state == LeaseState_HANDED) -> /* NEVER: not picked yet */
     printf("BROKEN TotalHandlers pages on TAKE\n"); assert(false)
  fi
}

inline buffer_TAKE() { /* the memory is lent to the room */
  if
  :: (buffer_state == LeaseState_FREE) -> /* GO: lent */
     buffer_state = LeaseState_HELD; fx = 0
  :: (buffer_state == LeaseState_HELD) || /* NEVER: lent once */
     (buffer_state == LeaseState_IN_FLIGHT) || /* NEVER: lent once */
     (buffer_state == LeaseState_DRAINING) || /* NEVER: lent once */
     (buffer_state == LeaseState_QUARANTINED) || /* NEVER: lent once */
     (buffer_state == LeaseState_HANDED) -> /* NEVER: not picked yet */
     printf("BROKEN TotalHandlers buffer on TAKE\n"); assert(false)
  fi
}

inline receiver_META() { /* the engine hands over destination pages and the aux slot */
  if
  :: (receiver_state == KVPoll_Bootstrapping && (!(receiver_linked == 1)) && (!(receiver_meta == 1))) -> /* STAY: decode first: the pages wait for the link */
     receiver_meta = 1; receiver_gated = receiver_arg_gates; fx = 0
  :: (receiver_state == KVPoll_Bootstrapping && ((receiver_linked == 1) && (receiver_push == 1)) && (!(receiver_meta == 1))) -> /* GO: the buffer is open before anybody hears of it */
     receiver_meta = 1; receiver_gated = receiver_arg_gates; receiver_state = KVPoll_WaitingForInput; fx = 1
  :: (receiver_state == KVPoll_Bootstrapping && ((receiver_linked == 1) && (!(receiver_push == 1))) && (!(receiver_meta == 1))) -> /* GO: pull: the sender may offer from now on */
     receiver_meta = 1; receiver_gated = receiver_arg_gates; receiver_state = KVPoll_WaitingForInput; fx = 2
  :: (receiver_state == KVPoll_Bootstrapping && receiver_meta == 1) || /* REFUSE: pages are handed over once per attempt */
     (receiver_state == KVPoll_WaitingForInput) || /* REFUSE: pages are handed over once per attempt */
     (receiver_state == KVPoll_Transferring) || /* REFUSE: pages are handed over once per attempt */
     (receiver_state == KVPoll_Success) -> /* REFUSE: the attempt is over */
     printf("BROKEN EngineObeys receiver on META\n"); assert(false)
  :: (receiver_state == KVPoll_Failed) -> /* IGNORE: the engine cannot have known yet; its pages are handed back at once */
     fx = 0
  fi;
  if
  :: fx == 1 -> /* EXPOSE, SEND_META */
     if
     :: !(buffer_state == LeaseState_FREE || buffer_state == LeaseState_HANDED) ->
        buffer_EXPOSE();
     :: else
     fi;
     to_sender_0 = to_sender_0 | 2; /* META */
  :: fx == 2 -> /* SEND_META */
     to_sender_0 = to_sender_0 | 2; /* META */
  :: else
  fi
}

inline pages_CLOSE() { /* the room is over */
  if
  :: (pages_state == LeaseState_FREE) || /* IGNORE: late */
     (pages_state == LeaseState_DRAINING) || /* IGNORE: closed already */
     (pages_state == LeaseState_HANDED) -> /* IGNORE: closed already */
     fx = 0
  :: (pages_state == LeaseState_HELD) -> /* GO: never touched: back at once */
     pages_state = LeaseState_HANDED; fx = 1
  :: (pages_state == LeaseState_IN_FLIGHT) -> /* GO: the room is over, the memory is not (A01, A02) */
     pages_over = 1; pages_state = LeaseState_DRAINING; fx = 0
  :: (pages_state == LeaseState_QUARANTINED) -> /* STAY: the room is over */
     pages_over = 1; fx = 0
  fi;
  if
  :: fx == 1 -> /* HAND_BACK */
   skip
  :: else
  fi
}

inline buffer_CLOSE() { /* the room is over */
  if
  :: (buffer_state == LeaseState_FREE) || /* IGNORE: late */
     (buffer_state == LeaseState_DRAINING) || /* IGNORE: closed already */
     (buffer_state == LeaseState_HANDED) -> /* IGNORE: closed already */
     fx = 0
  :: (buffer_state == LeaseState_HELD) -> /* GO: never touched: back at once */
     buffer_state = LeaseState_HANDED; fx = 1
  :: (buffer_state == LeaseState_IN_FLIGHT) -> /* GO: the room is over, the memory is not (A01, A02) */
     buffer_over = 1; buffer_state = LeaseState_DRAINING; fx = 0
  :: (buffer_state == LeaseState_QUARANTINED) -> /* STAY: the room is over */
     buffer_over = 1; fx = 0
  fi;
  if
  :: fx == 1 -> /* HAND_BACK */
   skip
  :: else
  fi
}

inline receiver_COMMIT() { /* the engine starts to write what arrived into its pages */
  if
  :: (receiver_state == KVPoll_Bootstrapping) || /* REFUSE: nothing has arrived */
     (receiver_state == KVPoll_WaitingForInput) || /* REFUSE: nothing has arrived */
     (receiver_state == KVPoll_Transferring && ((((!(receiver_whole == 1)) || (receiver_gated == 1))) || (receiver_busy == 1))) || /* REFUSE: not everything is here, a gate is closed, or it is being committed */
     (receiver_state == KVPoll_Success) || /* REFUSE: committed already */
     (receiver_state == KVPoll_Failed) -> /* REFUSE: the room has failed; failure_exception() says why */
     printf("BROKEN EngineObeys receiver on COMMIT\n"); assert(false)
  :: (receiver_state == KVPoll_Transferring && ((receiver_whole == 1) && (!(receiver_gated == 1))) && (!(receiver_busy == 1))) -> /* STAY: on the engine's thread; its pages are in flight until COMMITTED */
     receiver_busy = 1; fx = 0
  fi
}

inline buffer_START() { /* an operation of ours on it was admitted to a queue */
  if
  :: (buffer_state == LeaseState_FREE) || /* NEVER: nothing starts on memory that is not lent */
     (buffer_state == LeaseState_DRAINING) || /* NEVER: admission is closed */
     (buffer_state == LeaseState_QUARANTINED) || /* NEVER: admission is closed by the same failure */
     (buffer_state == LeaseState_HANDED) -> /* NEVER: admission is closed */
     printf("BROKEN TotalHandlers buffer on START\n"); assert(false)
  :: (buffer_state == LeaseState_HELD) -> /* GO: from admission on it counts as started (CountExact) */
     buffer_own = 1; buffer_state = LeaseState_IN_FLIGHT; fx = 0
  :: (buffer_state == LeaseState_IN_FLIGHT) -> /* STAY: one more operation */
     buffer_own = 1; fx = 0
  fi
}

inline pages_START() { /* an operation of ours on it was admitted to a queue */
  if
  :: (pages_state == LeaseState_FREE) || /* NEVER: nothing starts on memory that is not lent */
     (pages_state == LeaseState_DRAINING) || /* NEVER: admission is closed */
     (pages_state == LeaseState_QUARANTINED) || /* NEVER: admission is closed by the same failure */
     (pages_state == LeaseState_HANDED) -> /* NEVER: admission is closed */
     printf("BROKEN TotalHandlers pages on START\n"); assert(false)
  :: (pages_state == LeaseState_HELD) -> /* GO: from admission on it counts as started (CountExact) */
     pages_own = 1; pages_state = LeaseState_IN_FLIGHT; fx = 0
  :: (pages_state == LeaseState_IN_FLIGHT) -> /* STAY: one more operation */
     pages_own = 1; fx = 0
  fi
}

inline buffer_QUIET() { /* started - quiescent of our operations on it is zero (fenced counts as quiescent) */
  if
  :: (buffer_state == LeaseState_FREE) || /* IGNORE: late */
     (buffer_state == LeaseState_HELD) || /* IGNORE: nothing was in flight */
     (buffer_state == LeaseState_IN_FLIGHT && !(buffer_own == 1)) || /* IGNORE: nothing of ours was in flight */
     (buffer_state == LeaseState_DRAINING && !(buffer_own == 1)) || /* IGNORE: nothing of ours was in flight */
     (buffer_state == LeaseState_QUARANTINED && !(buffer_own == 1)) || /* IGNORE: nothing of ours was in flight */
     (buffer_state == LeaseState_HANDED) -> /* IGNORE: late */
     fx = 0
  :: (buffer_state == LeaseState_IN_FLIGHT && (buffer_own == 1) && (!(buffer_theirs == 1))) || /* GO: quiescent */
     (buffer_state == LeaseState_QUARANTINED && ((buffer_own == 1) && (!(buffer_theirs == 1))) && (!(buffer_over == 1))) -> /* GO: fenced before the room was closed */
     buffer_own = 0; buffer_state = LeaseState_HELD; fx = 0
  :: (buffer_state == LeaseState_IN_FLIGHT && (buffer_own == 1) && (buffer_theirs == 1)) || /* STAY: the peer may still touch it */
     (buffer_state == LeaseState_DRAINING && (buffer_own == 1) && (buffer_theirs == 1)) || /* STAY: the peer may still touch it */
     (buffer_state == LeaseState_QUARANTINED && (buffer_own == 1) && (buffer_theirs == 1)) -> /* STAY: the peer may still touch it */
     buffer_own = 0; fx = 0
  :: (buffer_state == LeaseState_DRAINING && (buffer_own == 1) && (!(buffer_theirs == 1))) || /* GO: the end that starts operations has none left */
     (buffer_state == LeaseState_QUARANTINED && ((buffer_own == 1) && (!(buffer_theirs == 1))) && (buffer_over == 1)) -> /* GO: fenced */
     buffer_own = 0; buffer_theirs = 0; buffer_over = 0; buffer_state = LeaseState_HANDED; fx = 1
  fi;
  if
  :: fx == 1 -> /* HAND_BACK */
   skip
  :: else
  fi
}

inline pages_QUIET() { /* started - quiescent of our operations on it is zero (fenced counts as quiescent) */
  if
  :: (pages_state == LeaseState_FREE) || /* IGNORE: late */
     (pages_state == LeaseState_HELD) || /* IGNORE: nothing was in flight */
     (pages_state == LeaseState_IN_FLIGHT && !(pages_own == 1)) || /* IGNORE: nothing of ours was in flight */
     (pages_state == LeaseState_DRAINING && !(pages_own == 1)) || /* IGNORE: nothing of ours was in flight */
     (pages_state == LeaseState_QUARANTINED && !(pages_own == 1)) || /* IGNORE: nothing of ours was in flight */
     (pages_state == LeaseState_HANDED) -> /* IGNORE: late */
     fx = 0
  :: (pages_state == LeaseState_IN_FLIGHT && (pages_own == 1) && (!(pages_theirs == 1))) || /* GO: quiescent */
     (pages_state == LeaseState_QUARANTINED && ((pages_own == 1) && (!(pages_theirs == 1))) && (!(pages_over == 1))) -> /* GO: fenced before the room was closed */
     pages_own = 0; pages_state = LeaseState_HELD; fx = 0
  :: (pages_state == LeaseState_IN_FLIGHT && (pages_own == 1) && (pages_theirs == 1)) || /* STAY: the peer may still touch it */
     (pages_state == LeaseState_DRAINING && (pages_own == 1) && (pages_theirs == 1)) || /* STAY: the peer may still touch it */
     (pages_state == LeaseState_QUARANTINED && (pages_own == 1) && (pages_theirs == 1)) -> /* STAY: the peer may still touch it */
     pages_own = 0; fx = 0
  :: (pages_state == LeaseState_DRAINING && (pages_own == 1) && (!(pages_theirs == 1))) || /* GO: the end that starts operations has none left */
     (pages_state == LeaseState_QUARANTINED && ((pages_own == 1) && (!(pages_theirs == 1))) && (pages_over == 1)) -> /* GO: fenced */
     pages_own = 0; pages_theirs = 0; pages_over = 0; pages_state = LeaseState_HANDED; fx = 1
  fi;
  if
  :: fx == 1 -> /* HAND_BACK */
   skip
  :: else
  fi
}

inline r_answer_abort() {
  if
  :: (r_failed && (receiver_state == KVPoll_Success || receiver_state == KVPoll_Failed)) ->
     if
     :: (r_access_state == LeaseState_HANDED) ->
        if :: !((op0 == 1) || (op0 == 4) || (op0 == 5)) -> skip :: else -> printf("BROKEN AckMeansQuiescent the receiver said that it has drained while its operation was in flight\n"); assert(false) fi;
        put_to_sender((4)); /* ABORT_ACK */
     :: else
     fi;
     if
     :: (r_access_state == LeaseState_QUARANTINED) ->
        put_to_sender((4 + 1)); /* ABORT_ACK */
     :: else
     fi;
  :: else
  fi;
}

inline r_access_CLOSE() { /* the room is over */
  if
  :: (r_access_state == LeaseState_FREE) || /* IGNORE: late */
     (r_access_state == LeaseState_DRAINING) || /* IGNORE: closed already */
     (r_access_state == LeaseState_HANDED) -> /* IGNORE: closed already */
     fx = 0
  :: (r_access_state == LeaseState_HELD) -> /* GO: never touched: back at once */
     r_access_state = LeaseState_HANDED; fx = 1
  :: (r_access_state == LeaseState_IN_FLIGHT) -> /* GO: the room is over, the memory is not (A01, A02) */
     r_access_over = 1; r_access_state = LeaseState_DRAINING; fx = 0
  :: (r_access_state == LeaseState_QUARANTINED) -> /* STAY: the room is over */
     r_access_over = 1; fx = 0
  fi;
  if
  :: fx == 1 -> /* HAND_BACK */
     r_answer_abort();
  :: else
  fi
}

inline buffer_DRAINED() { /* every peer that could touch it has drained or is fenced */
  if
  :: (buffer_state == LeaseState_FREE) || /* IGNORE: late: the word is given again when asked again */
     (buffer_state == LeaseState_HELD) || /* IGNORE: nothing was exposed */
     (buffer_state == LeaseState_IN_FLIGHT && !(buffer_theirs == 1)) || /* IGNORE: nothing was exposed */
     (buffer_state == LeaseState_DRAINING && !(buffer_theirs == 1)) || /* IGNORE: nothing was exposed */
     (buffer_state == LeaseState_QUARANTINED && !(buffer_theirs == 1)) || /* IGNORE: nothing was exposed */
     (buffer_state == LeaseState_HANDED) -> /* IGNORE: late */
     fx = 0
  :: (buffer_state == LeaseState_IN_FLIGHT && (buffer_theirs == 1) && (!(buffer_own == 1))) || /* GO: every planned part arrived, or the peer gave it up */
     (buffer_state == LeaseState_QUARANTINED && ((buffer_theirs == 1) && (!(buffer_own == 1))) && (!(buffer_over == 1))) -> /* GO: fenced before the room was closed */
     buffer_theirs = 0; buffer_state = LeaseState_HELD; fx = 0
  :: (buffer_state == LeaseState_IN_FLIGHT && (buffer_theirs == 1) && (buffer_own == 1)) || /* STAY: our own operation may still touch it */
     (buffer_state == LeaseState_DRAINING && (buffer_theirs == 1) && (buffer_own == 1)) || /* STAY: our own operation may still touch it (A15) */
     (buffer_state == LeaseState_QUARANTINED && (buffer_theirs == 1) && (buffer_own == 1)) -> /* STAY: our own operation is unresolved */
     buffer_theirs = 0; fx = 0
  :: (buffer_state == LeaseState_DRAINING && (buffer_theirs == 1) && (!(buffer_own == 1))) || /* GO: its drain word, or a fence (A03) */
     (buffer_state == LeaseState_QUARANTINED && ((buffer_theirs == 1) && (!(buffer_own == 1))) && (buffer_over == 1)) -> /* GO: fenced, or drained after all */
     buffer_own = 0; buffer_theirs = 0; buffer_over = 0; buffer_state = LeaseState_HANDED; fx = 1
  fi;
  if
  :: fx == 1 -> /* HAND_BACK */
   skip
  :: else
  fi
}

inline pages_DRAINED() { /* every peer that could touch it has drained or is fenced */
  if
  :: (pages_state == LeaseState_FREE) || /* IGNORE: late: the word is given again when asked again */
     (pages_state == LeaseState_HELD) || /* IGNORE: nothing was exposed */
     (pages_state == LeaseState_IN_FLIGHT && !(pages_theirs == 1)) || /* IGNORE: nothing was exposed */
     (pages_state == LeaseState_DRAINING && !(pages_theirs == 1)) || /* IGNORE: nothing was exposed */
     (pages_state == LeaseState_QUARANTINED && !(pages_theirs == 1)) || /* IGNORE: nothing was exposed */
     (pages_state == LeaseState_HANDED) -> /* IGNORE: late */
     fx = 0
  :: (pages_state == LeaseState_IN_FLIGHT && (pages_theirs == 1) && (!(pages_own == 1))) || /* GO: every planned part arrived, or the peer gave it up */
     (pages_state == LeaseState_QUARANTINED && ((pages_theirs == 1) && (!(pages_own == 1))) && (!(pages_over == 1))) -> /* GO: fenced before the room was closed */
     pages_theirs = 0; pages_state = LeaseState_HELD; fx = 0
  :: (pages_state == LeaseState_IN_FLIGHT && (pages_theirs == 1) && (pages_own == 1)) || /* STAY: our own operation may still touch it */
     (pages_state == LeaseState_DRAINING && (pages_theirs == 1) && (pages_own == 1)) || /* STAY: our own operation may still touch it (A15) */
     (pages_state == LeaseState_QUARANTINED && (pages_theirs == 1) && (pages_own == 1)) -> /* STAY: our own operation is unresolved */
     pages_theirs = 0; fx = 0
  :: (pages_state == LeaseState_DRAINING && (pages_theirs == 1) && (!(pages_own == 1))) || /* GO: its drain word, or a fence (A03) */
     (pages_state == LeaseState_QUARANTINED && ((pages_theirs == 1) && (!(pages_own == 1))) && (pages_over == 1)) -> /* GO: fenced, or drained after all */
     pages_own = 0; pages_theirs = 0; pages_over = 0; pages_state = LeaseState_HANDED; fx = 1
  fi;
  if
  :: fx == 1 -> /* HAND_BACK */
   skip
  :: else
  fi
}

inline r_drain() {
  if
  :: (r_drained || (r_link == 0)) ->
     if
     :: !(buffer_state == LeaseState_FREE || buffer_state == LeaseState_HANDED) ->
        buffer_DRAINED();
     :: else
     fi;
     if
     :: !(pages_state == LeaseState_FREE || pages_state == LeaseState_HANDED) ->
        pages_DRAINED();
     :: else
     fi;
  :: else
  fi;
}

inline r_close() {
  if
  :: !(buffer_state == LeaseState_FREE || buffer_state == LeaseState_HANDED) ->
     buffer_CLOSE();
  :: else
  fi;
  if
  :: !(pages_state == LeaseState_FREE || pages_state == LeaseState_HANDED) ->
     pages_CLOSE();
  :: else
  fi;
  r_access_CLOSE();
  r_drain();
}

inline receiver_COMMITTED() { /* the engine's pages hold the data */
  if
  :: (receiver_state == KVPoll_Bootstrapping) || /* NEVER: COMMIT is refused here */
     (receiver_state == KVPoll_WaitingForInput) || /* NEVER: COMMIT is refused here */
     (receiver_state == KVPoll_Transferring && !(receiver_busy == 1)) || /* NEVER: COMMIT comes first */
     (receiver_state == KVPoll_Success) || /* NEVER: committed once */
     (receiver_state == KVPoll_Failed && !(receiver_busy == 1)) -> /* NEVER: COMMIT comes first */
     printf("BROKEN TotalHandlers receiver on COMMITTED\n"); assert(false)
  :: (receiver_state == KVPoll_Transferring && receiver_busy == 1) -> /* GO: the only way to Success */
     receiver_busy = 0; receiver_state = KVPoll_Success; fx = 1
  :: (receiver_state == KVPoll_Failed && receiver_busy == 1) -> /* STAY: failed while the engine wrote: its pages come back only now */
     receiver_busy = 0; fx = 0
  fi;
  if
  :: fx == 1 -> /* SEND_CONCLUDE, CLOSE */
     if
     :: r_link ->
        if :: !((op0 == 1) || (op0 == 4) || (op0 == 5)) -> skip :: else -> printf("BROKEN AckMeansQuiescent the receiver said that it has drained while its operation was in flight\n"); assert(false) fi;
        to_sender_0 = to_sender_0 | 4; /* CONCLUDE */
     :: else
     fi;
     r_close();
  :: else
  fi
}

inline r_access_QUIET() { /* started - quiescent of our operations on it is zero (fenced counts as quiescent) */
  if
  :: (r_access_state == LeaseState_FREE) || /* IGNORE: late */
     (r_access_state == LeaseState_HELD) || /* IGNORE: nothing was in flight */
     (r_access_state == LeaseState_IN_FLIGHT && !(r_access_own == 1)) || /* IGNORE: nothing of ours was in flight */
     (r_access_state == LeaseState_DRAINING && !(r_access_own == 1)) || /* IGNORE: nothing of ours was in flight */
     (r_access_state == LeaseState_QUARANTINED && !(r_access_own == 1)) || /* IGNORE: nothing of ours was in flight */
     (r_access_state == LeaseState_HANDED) -> /* IGNORE: late */
     fx = 0
  :: (r_access_state == LeaseState_IN_FLIGHT && (r_access_own == 1) && (!(r_access_theirs == 1))) || /* GO: quiescent */
     (r_access_state == LeaseState_QUARANTINED && ((r_access_own == 1) && (!(r_access_theirs == 1))) && (!(r_access_over == 1))) -> /* GO: fenced before the room was closed */
     r_access_own = 0; r_access_state = LeaseState_HELD; fx = 0
  :: (r_access_state == LeaseState_IN_FLIGHT && (r_access_own == 1) && (r_access_theirs == 1)) || /* STAY: the peer may still touch it */
     (r_access_state == LeaseState_DRAINING && (r_access_own == 1) && (r_access_theirs == 1)) || /* STAY: the peer may still touch it */
     (r_access_state == LeaseState_QUARANTINED && (r_access_own == 1) && (r_access_theirs == 1)) -> /* STAY: the peer may still touch it */
     r_access_own = 0; fx = 0
  :: (r_access_state == LeaseState_DRAINING && (r_access_own == 1) && (!(r_access_theirs == 1))) || /* GO: the end that starts operations has none left */
     (r_access_state == LeaseState_QUARANTINED && ((r_access_own == 1) && (!(r_access_theirs == 1))) && (r_access_over == 1)) -> /* GO: fenced */
     r_access_own = 0; r_access_theirs = 0; r_access_over = 0; r_access_state = LeaseState_HANDED; fx = 1
  fi;
  if
  :: fx == 1 -> /* HAND_BACK */
     r_answer_abort();
  :: else
  fi
}

inline r_quiet() {
  if
  :: !((op0 == 1) || (op0 == 4) || (op0 == 5)) ->
     r_access_QUIET();
  :: else
  fi;
}

inline r_access_START() { /* an operation of ours on it was admitted to a queue */
  if
  :: (r_access_state == LeaseState_FREE) || /* NEVER: nothing starts on memory that is not lent */
     (r_access_state == LeaseState_DRAINING) || /* NEVER: admission is closed */
     (r_access_state == LeaseState_QUARANTINED) || /* NEVER: admission is closed by the same failure */
     (r_access_state == LeaseState_HANDED) -> /* NEVER: admission is closed */
     printf("BROKEN TotalHandlers r_access on START\n"); assert(false)
  :: (r_access_state == LeaseState_HELD) -> /* GO: from admission on it counts as started (CountExact) */
     r_access_own = 1; r_access_state = LeaseState_IN_FLIGHT; fx = 0
  :: (r_access_state == LeaseState_IN_FLIGHT) -> /* STAY: one more operation */
     r_access_own = 1; fx = 0
  fi
}

inline r_fetch() {
  if
  :: (r_heard0 && (op0 == 0)) ->
     op0 = 1;
     r_access_START();
     if
     :: !(buffer_state == LeaseState_FREE || buffer_state == LeaseState_HANDED) ->
        buffer_START();
     :: else
     fi;
  :: else
  fi;
}

inline receiver_OP_DONE() { /* a part was pulled, and waiting for its data raised nothing */
  if
  :: (receiver_state == KVPoll_Bootstrapping) || /* NEVER: nothing is pulled before an offer */
     (receiver_state == KVPoll_WaitingForInput) || /* NEVER: nothing is pulled before an offer */
     (receiver_state == KVPoll_Transferring && receiver_whole == 1) || /* NEVER: each part is pulled once */
     (receiver_state == KVPoll_Success) -> /* NEVER: everything had arrived */
     printf("BROKEN TotalHandlers receiver on OP_DONE\n"); assert(false)
  :: (receiver_state == KVPoll_Transferring && (!(receiver_whole == 1)) && ((!(receiver_gated == 1)) && (receiver_arg_whole_now == 1))) -> /* STAY: the last part is here */
     receiver_whole = 1; fx = 1
  :: (receiver_state == KVPoll_Transferring && (!(receiver_whole == 1)) && (!((!(receiver_gated == 1)) && (receiver_arg_whole_now == 1)))) -> /* STAY: a credit came back; more may be pulled */
     receiver_whole = receiver_arg_whole_now; fx = 2
  :: (receiver_state == KVPoll_Failed) -> /* IGNORE: counted by its lease; the data is dropped */
     fx = 0
  fi;
  if
  :: fx == 1 -> /* READY */
     r_ready = 1;
  :: fx == 2 -> /* FETCH */
     r_fetch();
  :: else
  fi
}

inline r_send_abort() {
  if
  :: r_link ->
     to_sender_0 = to_sender_0 | 8; /* ABORT */
  :: else
  fi;
}

inline receiver_OP_FAILED() { /* a pull failed and is quiescent */
  if
  :: (receiver_state == KVPoll_Bootstrapping) || /* NEVER: nothing is pulled before an offer */
     (receiver_state == KVPoll_WaitingForInput) || /* NEVER: nothing is pulled before an offer */
     (receiver_state == KVPoll_Success) -> /* NEVER: everything had arrived */
     printf("BROKEN TotalHandlers receiver on OP_FAILED\n"); assert(false)
  :: (receiver_state == KVPoll_Transferring) -> /* FAIL: an errored array is never a success (hazard 1) */
     receiver_state = KVPoll_Failed; fx = 1
  :: (receiver_state == KVPoll_Failed) -> /* IGNORE: counted by its lease */
     fx = 0
  fi;
  if
  :: fx == 1 -> /* SEND_ABORT, CLOSE */
     r_send_abort();
     r_close();
  :: else
  fi
}

inline receiver_RESEND() { /* a fact has had no answer for a re-send interval */
  if
  :: (receiver_state == KVPoll_Bootstrapping) || /* STAY: ANNOUNCE is re-sent until it is answered */
     (receiver_state == KVPoll_WaitingForInput) || /* STAY: META is re-sent until it is answered */
     (receiver_state == KVPoll_Transferring) || /* STAY: a fact is re-sent until an answer contains it */
     (receiver_state == KVPoll_Success) || /* STAY: CONCLUDE is re-sent until the sender says it is over */
     (receiver_state == KVPoll_Failed) -> /* STAY: ABORT is re-sent until it is acknowledged */
     fx = 1
  fi;
  if
  :: fx == 1 -> /* SEND_FACTS */
     r_send_facts();
  :: else
  fi
}

inline receiver_ABORT() { /* the engine gives the request up */
  if
  :: (receiver_state == KVPoll_Bootstrapping) || /* FAIL: addressable from create on, since ANNOUNCE came first (Q13) */
     (receiver_state == KVPoll_WaitingForInput) || /* FAIL: pages stay lent until the sender has drained (A01) */
     (receiver_state == KVPoll_Transferring) -> /* FAIL: pages stay lent until the sender has drained (A01) */
     receiver_state = KVPoll_Failed; fx = 1
  :: (receiver_state == KVPoll_Success) || /* IGNORE: too late: the pages are the engine's */
     (receiver_state == KVPoll_Failed) -> /* IGNORE: over already; the first cause holds */
     fx = 0
  fi;
  if
  :: fx == 1 -> /* SEND_ABORT, CLOSE */
     r_send_abort();
     r_close();
  :: else
  fi
}

inline s_reply() {
  if
  :: (sender_state == KVPoll_Success || sender_state == KVPoll_Failed) ->
     if
     :: (s_access_state == LeaseState_HANDED) ->
        skip
     :: else
     fi;
     put_to_receiver((23 + ((sender_state == KVPoll_Success) -> 1 : 0) * 12 + ((s_access_state == LeaseState_HANDED) -> 1 : ((s_access_state == LeaseState_QUARANTINED) -> 2 : 0)) * 4 + ((s_failed || s_concluded) -> 1 : 0) * 2)); /* OVER */
  :: else ->
     put_to_receiver((7 + (s_offered0 -> 1 : 0) * 8 + ((!(sender_plan == plan_open) && (sender_state == KVPoll_WaitingForInput || sender_state == KVPoll_Transferring)) -> 1 : 0) * 4 + s_meta * 2)); /* LIVE */
  fi;
}

inline sender_BIND() { /* ANNOUNCE with an equal room and fingerprint */
  if
  :: (sender_state == KVPoll_Bootstrapping && !(sender_bound == 1)) -> /* STAY: from here on silence counts; pairing, too, until every rank was met */
     sender_bound = 1; sender_met = sender_arg_all; sender_push = sender_arg_is_push; fx = 1
  :: (sender_state == KVPoll_Bootstrapping && ((sender_bound == 1) && (!(sender_met == 1))) && (sender_arg_all == 1)) -> /* STAY: the last rank of the attempt */
     sender_met = 1; fx = 2
  :: (sender_state == KVPoll_Bootstrapping && (sender_bound == 1) && (!((!(sender_met == 1)) && (sender_arg_all == 1)))) || /* IGNORE: another rank of the same attempt, or a copy */
     (sender_state == KVPoll_WaitingForInput) || /* IGNORE: a copy of ANNOUNCE */
     (sender_state == KVPoll_Transferring) || /* IGNORE: a copy of ANNOUNCE */
     (sender_state == KVPoll_Success) || /* IGNORE: late copy: recognised, creates nothing */
     (sender_state == KVPoll_Failed) -> /* IGNORE: late copy: recognised, creates nothing */
     fx = 2
  fi;
  if
  :: fx == 1 -> /* ARM_SILENCE, REPLY */
     s_reply();
  :: fx == 2 -> /* REPLY */
     s_reply();
  :: else
  fi
}

inline s_access_TAKE() { /* the memory is lent to the room */
  if
  :: (s_access_state == LeaseState_FREE) -> /* GO: lent */
     s_access_state = LeaseState_HELD; fx = 0
  :: (s_access_state == LeaseState_HELD) || /* NEVER: lent once */
     (s_access_state == LeaseState_IN_FLIGHT) || /* NEVER: lent once */
     (s_access_state == LeaseState_DRAINING) || /* NEVER: lent once */
     (s_access_state == LeaseState_QUARANTINED) || /* NEVER: lent once */
     (s_access_state == LeaseState_HANDED) -> /* NEVER: not picked yet */
     printf("BROKEN TotalHandlers s_access on TAKE\n"); assert(false)
  fi
}

inline sender_META() { /* a receiver rank says where data goes */
  if
  :: (sender_state == KVPoll_Bootstrapping && ((sender_bound == 1) && (sender_arg_all == 1)) && (sender_plan == plan_empty)) -> /* GO: an empty plan is in doubt from its closing message on */
     sender_doubt = 1; sender_state = KVPoll_Transferring; fx = 1
  :: (sender_state == KVPoll_Bootstrapping && ((sender_bound == 1) && (sender_arg_all == 1)) && (sender_plan == plan_closed)) -> /* GO: everything was sent already: start it, and say how much it is */
     sender_state = KVPoll_WaitingForInput; fx = 2
  :: (sender_state == KVPoll_Bootstrapping && ((sender_bound == 1) && (sender_arg_all == 1)) && (sender_plan == plan_open)) -> /* GO: what was sent so far can start */
     sender_state = KVPoll_WaitingForInput; fx = 3
  :: (sender_state == KVPoll_Bootstrapping && (sender_bound == 1) && (!(sender_arg_all == 1))) || /* STAY: other receiver ranks are still allocating */
     (sender_state == KVPoll_WaitingForInput) || /* IGNORE: a copy of META; the first one holds (Q48) */
     (sender_state == KVPoll_Transferring) || /* IGNORE: a copy of META */
     (sender_state == KVPoll_Success) || /* IGNORE: late copy (Q04) */
     (sender_state == KVPoll_Failed) -> /* IGNORE: late: no zombie room (Q04) */
     fx = 4
  :: (sender_state == KVPoll_Bootstrapping && !(sender_bound == 1)) -> /* NEVER: the core pairs a leg before it hands on META */
     printf("BROKEN TotalHandlers sender on META\n"); assert(false)
  fi;
  if
  :: fx == 1 -> /* SEND_CLOSE, REPLY */
     if
     :: s_peer ->
        to_receiver_0 = to_receiver_0 | 2; /* CLOSE */
     :: else
     fi;
     s_reply();
  :: fx == 2 -> /* SEND_CLOSE, START_PARTS, REPLY */
     if
     :: s_peer ->
        to_receiver_0 = to_receiver_0 | 2; /* CLOSE */
     :: else
     fi;
     s_start_parts();
     s_reply();
  :: fx == 3 -> /* START_PARTS, REPLY */
     s_start_parts();
     s_reply();
  :: fx == 4 -> /* REPLY */
     s_reply();
  :: else
  fi
}

inline sender_CONCLUDED() { /* CONCLUDE: a receiver rank committed */
  if
  :: (sender_state == KVPoll_Bootstrapping && sender_bound == 1) || /* FAIL: nothing was sent, so nothing can have been received */
     (sender_state == KVPoll_WaitingForInput) || /* FAIL: nothing was started, so nothing can have been received */
     (sender_state == KVPoll_Transferring && (sender_arg_all == 1) && (!(sender_doubt == 1))) -> /* FAIL: concluded before everything was started (B10) */
     sender_state = KVPoll_Failed; fx = 1
  :: (sender_state == KVPoll_Bootstrapping && !(sender_bound == 1)) -> /* NEVER: an unbound leg has no peer */
     printf("BROKEN TotalHandlers sender on CONCLUDED\n"); assert(false)
  :: (sender_state == KVPoll_Transferring && (sender_arg_all == 1) && (sender_doubt == 1)) -> /* GO: the receiver alone decides; every rank of it has */
     sender_doubt = 0; sender_state = KVPoll_Success; fx = 2
  :: (sender_state == KVPoll_Transferring && !(sender_arg_all == 1)) || /* STAY: one rank has what it needs; others have not */
     (sender_state == KVPoll_Success) || /* IGNORE: it was not sure that we heard it */
     (sender_state == KVPoll_Failed) -> /* IGNORE: it succeeded, we were in doubt: Failed stays */
     fx = 3
  fi;
  if
  :: fx == 1 -> /* SEND_ABORT, CLOSE */
     s_send_abort();
     s_close();
  :: fx == 2 -> /* CLOSE, REPLY */
     s_close();
     s_reply();
  :: fx == 3 -> /* REPLY */
     s_reply();
  :: else
  fi
}

inline sender_PEER_FAILED() { /* ABORT of a receiver rank */
  if
  :: (sender_state == KVPoll_Bootstrapping && sender_bound == 1) || /* FAIL: the receiver gave up before anything was started */
     (sender_state == KVPoll_WaitingForInput) -> /* FAIL: the receiver gave up before anything was started */
     sender_state = KVPoll_Failed; fx = 1
  :: (sender_state == KVPoll_Bootstrapping && !(sender_bound == 1)) -> /* NEVER: an unbound leg has no peer; the core keeps such an ABORT as a tombstone (Q13) */
     printf("BROKEN TotalHandlers sender on PEER_FAILED\n"); assert(false)
  :: (sender_state == KVPoll_Transferring) -> /* FAIL: its own word: it has not succeeded, so there is no doubt */
     sender_doubt = 0; sender_state = KVPoll_Failed; fx = 1
  :: (sender_state == KVPoll_Success) || /* IGNORE: a rank that concluded cannot fail; counted, never believed */
     (sender_state == KVPoll_Failed) -> /* IGNORE: it failed too; its ABORT is still answered */
     fx = 0
  fi;
  if
  :: fx == 1 -> /* SEND_ABORT, CLOSE */
     s_send_abort();
     s_close();
  :: else
  fi
}

inline copy0_PEER_UNRESOLVED() { /* ABORT_ACK(quarantined): an operation of the peer may still be in flight */
  if
  :: (copy0_state == LeaseState_FREE) || /* IGNORE: late */
     (copy0_state == LeaseState_HELD) || /* IGNORE: nothing was exposed */
     (copy0_state == LeaseState_IN_FLIGHT && !(copy0_theirs == 1)) || /* IGNORE: nothing was exposed */
     (copy0_state == LeaseState_DRAINING && !(copy0_theirs == 1)) || /* IGNORE: it has drained since */
     (copy0_state == LeaseState_QUARANTINED) || /* IGNORE: known */
     (copy0_state == LeaseState_HANDED) -> /* IGNORE: it had drained */
     fx = 0
  :: (copy0_state == LeaseState_IN_FLIGHT && copy0_theirs == 1) || /* GO: its attempt is over; the memory waits for fence(peer) */
     (copy0_state == LeaseState_DRAINING && copy0_theirs == 1) -> /* GO: waits for fence(peer) */
     copy0_state = LeaseState_QUARANTINED; fx = 1
  fi;
  if
  :: fx == 1 -> /* NOTE_QUARANTINE */
   skip
  :: else
  fi
}

inline sender_QUERIED() { /* QUERY, or a STATUS that wants an answer */
  if
  :: (sender_state == KVPoll_Bootstrapping && sender_bound == 1) || /* STAY: a query is always answered */
     (sender_state == KVPoll_WaitingForInput) || /* STAY: a long prefill: the answer keeps the receiver waiting (C02) */
     (sender_state == KVPoll_Transferring) || /* STAY: a query is always answered */
     (sender_state == KVPoll_Success) || /* STAY: answered for a tombstone too */
     (sender_state == KVPoll_Failed) -> /* STAY: answered for a tombstone too */
     fx = 1
  :: (sender_state == KVPoll_Bootstrapping && !(sender_bound == 1)) -> /* NEVER: the core answers for attempts that no leg is bound to */
     printf("BROKEN TotalHandlers sender on QUERIED\n"); assert(false)
  fi;
  if
  :: fx == 1 -> /* REPLY */
     s_reply();
  :: else
  fi
}

inline sender_LIVE() { /* STATUS that names this attempt as live */
  if
  :: (sender_state == KVPoll_Bootstrapping && sender_bound == 1) || /* STAY: the receiver still allocates */
     (sender_state == KVPoll_WaitingForInput) || /* STAY: the receiver waits for this prefill */
     (sender_state == KVPoll_Transferring) -> /* STAY: only an answer that names this attempt re-arms */
     sender_asked = 0; fx = 1
  :: (sender_state == KVPoll_Bootstrapping && !(sender_bound == 1)) -> /* NEVER: an unbound leg has no peer */
     printf("BROKEN TotalHandlers sender on LIVE\n"); assert(false)
  :: (sender_state == KVPoll_Success) || /* IGNORE: late */
     (sender_state == KVPoll_Failed) -> /* IGNORE: late */
     fx = 0
  fi;
  if
  :: fx == 1 -> /* ARM_SILENCE */
   skip
  :: else
  fi
}

inline receiver_BOUND() { /* a sender rank says that its leg is paired with this attempt */
  if
  :: (receiver_state == KVPoll_Bootstrapping && (receiver_arg_all == 1) && (!(receiver_bound == 1))) || /* STAY: from here on silence counts, not pairing */
     (receiver_state == KVPoll_WaitingForInput && (receiver_arg_all == 1) && (!(receiver_bound == 1))) -> /* STAY: from here on silence counts, not pairing */
     receiver_bound = 1; fx = 1
  :: (receiver_state == KVPoll_Bootstrapping && (receiver_arg_all == 1) && (receiver_bound == 1)) || /* IGNORE: a copy */
     (receiver_state == KVPoll_Bootstrapping && !(receiver_arg_all == 1)) || /* IGNORE: other sender ranks have not met it yet */
     (receiver_state == KVPoll_WaitingForInput && (receiver_arg_all == 1) && (receiver_bound == 1)) || /* IGNORE: a copy */
     (receiver_state == KVPoll_WaitingForInput && !(receiver_arg_all == 1)) || /* IGNORE: other sender ranks have not met it yet */
     (receiver_state == KVPoll_Transferring && (receiver_arg_all == 1) && (receiver_bound == 1)) || /* IGNORE: a copy */
     (receiver_state == KVPoll_Transferring && !(receiver_arg_all == 1)) || /* IGNORE: other sender ranks have not met it yet */
     (receiver_state == KVPoll_Success) || /* IGNORE: late copy */
     (receiver_state == KVPoll_Failed) -> /* IGNORE: late; ABORT is on its way to it */
     fx = 0
  :: (receiver_state == KVPoll_Transferring && (receiver_arg_all == 1) && (!(receiver_bound == 1))) -> /* STAY: a reordered answer: data came first */
     receiver_bound = 1; fx = 0
  fi;
  if
  :: fx == 1 -> /* ARM_SILENCE */
   skip
  :: else
  fi
}

inline receiver_PARTS() { /* OFFER, PART_DONE or CLOSE told something new */
  if
  :: (receiver_state == KVPoll_Bootstrapping) -> /* FAIL: nothing may move before META */
     receiver_state = KVPoll_Failed; fx = 1
  :: (receiver_state == KVPoll_WaitingForInput && (receiver_push == 1) && ((!(receiver_gated == 1)) && (receiver_arg_whole_now == 1))) || /* GO: everything came in one message */
     (receiver_state == KVPoll_WaitingForInput && (!(receiver_push == 1)) && ((!(receiver_gated == 1)) && (receiver_arg_whole_now == 1))) -> /* GO: an empty plan was closed: there is nothing to pull */
     receiver_whole = 1; receiver_state = KVPoll_Transferring; fx = 2
  :: (receiver_state == KVPoll_WaitingForInput && (receiver_push == 1) && (!((!(receiver_gated == 1)) && (receiver_arg_whole_now == 1)))) -> /* GO: the first part, or the closing message */
     receiver_whole = receiver_arg_whole_now; receiver_state = KVPoll_Transferring; fx = 3
  :: (receiver_state == KVPoll_WaitingForInput && (!(receiver_push == 1)) && (!((!(receiver_gated == 1)) && (receiver_arg_whole_now == 1)))) -> /* GO: the first offer, or the closing message */
     receiver_whole = receiver_arg_whole_now; receiver_state = KVPoll_Transferring; fx = 4
  :: (receiver_state == KVPoll_Transferring && ((!(receiver_whole == 1)) && (receiver_push == 1)) && ((!(receiver_gated == 1)) && (receiver_arg_whole_now == 1))) || /* STAY: the last part is here */
     (receiver_state == KVPoll_Transferring && ((!(receiver_whole == 1)) && (!(receiver_push == 1))) && ((!(receiver_gated == 1)) && (receiver_arg_whole_now == 1))) -> /* STAY: the closing message came after the last pull */
     receiver_whole = 1; fx = 2
  :: (receiver_state == KVPoll_Transferring && ((!(receiver_whole == 1)) && (receiver_push == 1)) && (!((!(receiver_gated == 1)) && (receiver_arg_whole_now == 1)))) -> /* STAY: one more part, or the gate is still closed */
     receiver_whole = receiver_arg_whole_now; fx = 3
  :: (receiver_state == KVPoll_Transferring && ((!(receiver_whole == 1)) && (!(receiver_push == 1))) && (!((!(receiver_gated == 1)) && (receiver_arg_whole_now == 1)))) -> /* STAY: one more offer, or the gate is still closed */
     receiver_whole = receiver_arg_whole_now; fx = 4
  :: (receiver_state == KVPoll_Transferring && receiver_whole == 1) || /* IGNORE: a copy: everything arrived before */
     (receiver_state == KVPoll_Success) || /* IGNORE: late copy; its destination refuses data (NoWriteAfterArrival) */
     (receiver_state == KVPoll_Failed) -> /* IGNORE: late: nothing is started, nothing is received */
     fx = 0
  fi;
  if
  :: fx == 1 -> /* SEND_ABORT, CLOSE */
     r_send_abort();
     r_close();
  :: fx == 2 -> /* READY */
     r_ready = 1;
  :: fx == 3 -> /* ARM_SILENCE */
   skip
  :: fx == 4 -> /* FETCH, ARM_SILENCE */
     r_fetch();
  :: else
  fi
}

inline r_reply() {
  if
  :: (receiver_state == KVPoll_Success || receiver_state == KVPoll_Failed) ->
     if
     :: ((r_access_state == LeaseState_HANDED) || (receiver_state == KVPoll_Success)) ->
        if :: !((op0 == 1) || (op0 == 4) || (op0 == 5)) -> skip :: else -> printf("BROKEN AckMeansQuiescent the receiver said that it has drained while its operation was in flight\n"); assert(false) fi;
     :: else
     fi;
     put_to_sender((23 + ((receiver_state == KVPoll_Success) -> 1 : 0) * 6 + ((r_access_state == LeaseState_HANDED) -> 1 : ((r_access_state == LeaseState_QUARANTINED) -> 2 : 0)) * 2)); /* OVER */
  :: else ->
     put_to_sender((7 + ((r_meta && (receiver_linked == 1)) -> 1 : 0) * 8 + (r_heard0) * 4 + r_total * 2)); /* LIVE */
  fi;
}

inline receiver_PEER_FAILED() { /* ABORT of a sender rank */
  if
  :: (receiver_state == KVPoll_Bootstrapping) || /* FAIL: prefill rejected or gave up (B10); no page was lent yet */
     (receiver_state == KVPoll_WaitingForInput) || /* FAIL: prefill failed; never looks like a hand-off (B10) */
     (receiver_state == KVPoll_Transferring) -> /* FAIL: not concluded yet: the sender's word ends it */
     receiver_state = KVPoll_Failed; fx = 1
  :: (receiver_state == KVPoll_Success) -> /* IGNORE: it failed in doubt: tell it again that we concluded */
     fx = 2
  :: (receiver_state == KVPoll_Failed) -> /* IGNORE: it failed too; its ABORT is still answered */
     fx = 0
  fi;
  if
  :: fx == 1 -> /* SEND_ABORT, CLOSE */
     r_send_abort();
     r_close();
  :: fx == 2 -> /* REPLY */
     r_reply();
  :: else
  fi
}

inline buffer_PEER_UNRESOLVED() { /* ABORT_ACK(quarantined): an operation of the peer may still be in flight */
  if
  :: (buffer_state == LeaseState_FREE) || /* IGNORE: late */
     (buffer_state == LeaseState_HELD) || /* IGNORE: nothing was exposed */
     (buffer_state == LeaseState_IN_FLIGHT && !(buffer_theirs == 1)) || /* IGNORE: nothing was exposed */
     (buffer_state == LeaseState_DRAINING && !(buffer_theirs == 1)) || /* IGNORE: it has drained since */
     (buffer_state == LeaseState_QUARANTINED) || /* IGNORE: known */
     (buffer_state == LeaseState_HANDED) -> /* IGNORE: it had drained */
     fx = 0
  :: (buffer_state == LeaseState_IN_FLIGHT && buffer_theirs == 1) || /* GO: its attempt is over; the memory waits for fence(peer) */
     (buffer_state == LeaseState_DRAINING && buffer_theirs == 1) -> /* GO: waits for fence(peer) */
     buffer_state = LeaseState_QUARANTINED; fx = 1
  fi;
  if
  :: fx == 1 -> /* NOTE_QUARANTINE */
   skip
  :: else
  fi
}

inline pages_PEER_UNRESOLVED() { /* ABORT_ACK(quarantined): an operation of the peer may still be in flight */
  if
  :: (pages_state == LeaseState_FREE) || /* IGNORE: late */
     (pages_state == LeaseState_HELD) || /* IGNORE: nothing was exposed */
     (pages_state == LeaseState_IN_FLIGHT && !(pages_theirs == 1)) || /* IGNORE: nothing was exposed */
     (pages_state == LeaseState_DRAINING && !(pages_theirs == 1)) || /* IGNORE: it has drained since */
     (pages_state == LeaseState_QUARANTINED) || /* IGNORE: known */
     (pages_state == LeaseState_HANDED) -> /* IGNORE: it had drained */
     fx = 0
  :: (pages_state == LeaseState_IN_FLIGHT && pages_theirs == 1) || /* GO: its attempt is over; the memory waits for fence(peer) */
     (pages_state == LeaseState_DRAINING && pages_theirs == 1) -> /* GO: waits for fence(peer) */
     pages_state = LeaseState_QUARANTINED; fx = 1
  fi;
  if
  :: fx == 1 -> /* NOTE_QUARANTINE */
   skip
  :: else
  fi
}

inline receiver_QUERIED() { /* QUERY, or a STATUS that wants an answer */
  if
  :: (receiver_state == KVPoll_Bootstrapping) || /* STAY: pages are still being allocated: the answer keeps the sender waiting */
     (receiver_state == KVPoll_WaitingForInput) || /* STAY: a query is always answered */
     (receiver_state == KVPoll_Transferring) || /* STAY: a query is always answered */
     (receiver_state == KVPoll_Success) || /* STAY: answered for a tombstone too */
     (receiver_state == KVPoll_Failed) -> /* STAY: answered for a tombstone too */
     fx = 1
  fi;
  if
  :: fx == 1 -> /* REPLY */
     r_reply();
  :: else
  fi
}

inline receiver_NO_LEG() { /* a sender rank holds no equal leg for this attempt */
  if
  :: (receiver_state == KVPoll_Bootstrapping) || /* FAIL: only one leg ever arrived, or it is of another request */
     (receiver_state == KVPoll_WaitingForInput) || /* FAIL: only one leg ever arrived, or it is of another request */
     (receiver_state == KVPoll_Transferring && !(receiver_whole == 1)) -> /* FAIL: the sender holds nothing for this attempt any more */
     receiver_state = KVPoll_Failed; fx = 1
  :: (receiver_state == KVPoll_Transferring && receiver_whole == 1) || /* IGNORE: everything is here (rule 2) */
     (receiver_state == KVPoll_Success) || /* IGNORE: its record is gone: one peer less to tell */
     (receiver_state == KVPoll_Failed) -> /* IGNORE: its record is gone: one peer less to tell */
     fx = 0
  fi;
  if
  :: fx == 1 -> /* SEND_ABORT, CLOSE */
     r_send_abort();
     r_close();
  :: else
  fi
}

inline receiver_LIVE() { /* STATUS that names this attempt as live */
  if
  :: (receiver_state == KVPoll_Bootstrapping) || /* STAY: the sender knows this attempt */
     (receiver_state == KVPoll_WaitingForInput) || /* STAY: a long prefill is not silence (C02) */
     (receiver_state == KVPoll_Transferring) -> /* STAY: only an answer that names this attempt re-arms */
     fx = 1
  :: (receiver_state == KVPoll_Success) || /* IGNORE: late */
     (receiver_state == KVPoll_Failed) -> /* IGNORE: late */
     fx = 0
  fi;
  if
  :: fx == 1 -> /* ARM_SILENCE */
   skip
  :: else
  fi
}

active proctype world() {
end: do
:: atomic { /* the prefill engine sends part 0 */
     d_step { ((sender_plan == plan_open) && (s_sent == 0)) -> skip }
     d_step {
       if
       :: (sender_state == KVPoll_Failed) ->
          sender_arg_last = 1;
          sender_arg_rows = 1;
          sender_arg_idle = 0;
          sender_SEND();
       :: else ->
          s_sent = 1;
          sender_arg_last = 1;
          sender_arg_rows = 1;
          sender_arg_idle = 0;
          sender_SEND();
          copy0_TAKE();
          copy0_START();
          copy0_QUIET();
          sender_STARTABLE();
       fi;
     }
     d_step { done() } }
:: atomic { /* the sender says its facts again */
     d_step { (s_peer && ((sender_state == KVPoll_Failed) -> (s_acked == 0) : (s_meta && ((s_seen < ((s_offered0 -> 1 : 0))) || (!(sender_plan == plan_open) && (sender_state == KVPoll_WaitingForInput || sender_state == KVPoll_Transferring) && (s_total == 0))) && !(sender_state == KVPoll_Success))) && (to_sender_0 == 0 && to_sender_1 == 0) && (to_receiver_0 == 0 && to_receiver_1 == 0)) -> skip }
     d_step { sender_RESEND();
     }
     d_step { done() } }
:: atomic { /* nobody pairs the leg */
     d_step { (!(sender_state == KVPoll_Success || sender_state == KVPoll_Failed) && (s_peer == 0) && (receiver_state == KVPoll_Success || receiver_state == KVPoll_Failed) && (to_sender_0 == 0 && to_sender_1 == 0) && (to_receiver_0 == 0 && to_receiver_1 == 0)) -> skip }
     d_step { sender_PAIRING();
     }
     d_step { done() } }
:: atomic { /* the prefill engine aborts */
     d_step { (aborts > 0 && !(sender_state == KVPoll_Success || sender_state == KVPoll_Failed)) -> aborts = aborts - 1 }
     d_step { sender_ABORT();
     }
     d_step { done() } }
:: atomic { /* the link opens */
     d_step { (r_link == 0) -> skip }
     d_step {
       r_link = 1;
       receiver_arg_all = 1;
       receiver_arg_is_push = 0;
       receiver_LINKED();
     }
     d_step { done() } }
:: atomic { /* the decode engine hands pages over */
     d_step { (r_meta == 0) -> skip }
     d_step {
       r_meta = 1;
       pages_TAKE();
       buffer_TAKE();
       receiver_arg_gates = 0;
       receiver_META();
       if
       :: (receiver_state == KVPoll_Success || receiver_state == KVPoll_Failed) ->
          if
          :: !(pages_state == LeaseState_FREE || pages_state == LeaseState_HANDED) ->
             pages_CLOSE();
          :: else
          fi;
          if
          :: !(buffer_state == LeaseState_FREE || buffer_state == LeaseState_HANDED) ->
             buffer_CLOSE();
          :: else
          fi;
       :: else
       fi;
     }
     d_step { done() } }
:: atomic { /* the decode engine commits */
     d_step { (r_ready && (receiver_state == KVPoll_Transferring) && (receiver_whole == 1) && (receiver_gated == 0) && (receiver_busy == 0)) -> skip }
     d_step {
       receiver_COMMIT();
       if
       :: !(buffer_state == LeaseState_FREE || buffer_state == LeaseState_HANDED) ->
          buffer_START();
       :: else
       fi;
       if
       :: !(pages_state == LeaseState_FREE || pages_state == LeaseState_HANDED) ->
          pages_START();
       :: else
       fi;
     }
     d_step { done() } }
:: atomic { /* the commit is done */
     d_step { (receiver_busy == 1) -> skip }
     d_step {
       if
       :: !(buffer_state == LeaseState_FREE || buffer_state == LeaseState_HANDED) ->
          buffer_QUIET();
       :: else
       fi;
       if
       :: !(pages_state == LeaseState_FREE || pages_state == LeaseState_HANDED) ->
          pages_QUIET();
       :: else
       fi;
       receiver_COMMITTED();
     }
     d_step { done() } }
:: atomic { /* part 0 is pulled */
     d_step { (op0 == 1) -> skip }
     d_step {
       op0 = 2;
       if
       :: (!((op0 == 1) || (op0 == 4) || (op0 == 5)) && !(receiver_busy == 1)) ->
          if
          :: !(buffer_state == LeaseState_FREE || buffer_state == LeaseState_HANDED) ->
             buffer_QUIET();
          :: else
          fi;
       :: else
       fi;
       r_quiet();
       receiver_arg_whole_now = (r_total && (op0 == 2));
       receiver_OP_DONE();
     }
     d_step { done() } }
:: atomic { /* pulling part 0 is cancelled */
     d_step { ((op0 == 1) && (receiver_state == KVPoll_Success || receiver_state == KVPoll_Failed)) -> skip }
     d_step {
       op0 = 3;
       if
       :: (!((op0 == 1) || (op0 == 4) || (op0 == 5)) && !(receiver_busy == 1)) ->
          if
          :: !(buffer_state == LeaseState_FREE || buffer_state == LeaseState_HANDED) ->
             buffer_QUIET();
          :: else
          fi;
       :: else
       fi;
       r_quiet();
       receiver_OP_FAILED();
     }
     d_step { done() } }
:: atomic { /* the receiver says its facts again */
     d_step { (r_link && ((receiver_state == KVPoll_Failed) -> ((r_acked == 0) || (r_acked && (r_drained == 0) && ((buffer_state == LeaseState_QUARANTINED) || (pages_state == LeaseState_QUARANTINED)))) : ((receiver_state == KVPoll_Success) -> (((r_over == 0) && (r_saw_over == 0)) || (r_acked && (r_drained == 0) && ((buffer_state == LeaseState_QUARANTINED) || (pages_state == LeaseState_QUARANTINED)))) : (!(receiver_whole == 1) && (((r_saw_announce == 0) && (r_bound == 0)) || (r_meta && (receiver_linked == 1) && !(r_saw_meta || r_total || r_heard0)))))) && (to_sender_0 == 0 && to_sender_1 == 0) && (to_receiver_0 == 0 && to_receiver_1 == 0)) -> skip }
     d_step { receiver_RESEND();
     }
     d_step { done() } }
:: atomic { /* the decode engine aborts */
     d_step { (aborts > 0 && !(receiver_state == KVPoll_Success || receiver_state == KVPoll_Failed)) -> aborts = aborts - 1 }
     d_step { receiver_ABORT();
     }
     d_step { done() } }
:: atomic { /* to_sender: ANNOUNCE arrives */
     if
     :: d_step { (to_sender_0 & 1) -> to_sender_0 = to_sender_0 - 1 }
     fi;
     d_step {
       if
       :: s_peer ->
          sender_arg_is_push = 0;
          sender_arg_all = 1;
          sender_BIND();
       :: else ->
          if
          :: s_tomb ->
             to_receiver_0 = to_receiver_0 | 64; /* NO_LEG */
          :: else ->
             s_peer = 1;
             s_access_TAKE();
             if
             :: (sender_state == KVPoll_Success || sender_state == KVPoll_Failed) ->
                s_access_CLOSE();
             :: else
             fi;
             sender_arg_is_push = 0;
             sender_arg_all = 1;
             sender_BIND();
          fi;
       fi;
     }
     d_step { done() } }
:: atomic { /* to_sender: META arrives */
     if
     :: d_step { (to_sender_0 & 2) -> to_sender_0 = to_sender_0 - 2 }
     fi;
     d_step {
       if
       :: s_peer ->
          sender_arg_is_push = 0;
          sender_arg_all = 1;
          sender_BIND();
          s_meta = 1;
          sender_arg_all = 1;
          sender_META();
       :: else ->
          if
          :: s_tomb ->
             to_receiver_0 = to_receiver_0 | 64; /* NO_LEG */
          :: else ->
             s_peer = 1;
             s_access_TAKE();
             if
             :: (sender_state == KVPoll_Success || sender_state == KVPoll_Failed) ->
                s_access_CLOSE();
             :: else
             fi;
             sender_arg_is_push = 0;
             sender_arg_all = 1;
             sender_BIND();
             s_meta = 1;
             sender_arg_all = 1;
             sender_META();
          fi;
       fi;
     }
     d_step { done() } }
:: atomic { /* to_sender: CONCLUDE arrives */
     if
     :: d_step { (to_sender_0 & 4) -> to_sender_0 = to_sender_0 - 4 }
     fi;
     d_step {
       if
       :: s_peer ->
          s_concluded = 1;
          s_drained = 1;
          s_drain();
          sender_arg_all = 1;
          sender_CONCLUDED();
       :: else ->
          if
          :: s_tomb ->
             put_to_receiver((3)); /* ABORT_ACK */
          :: else ->
             s_tomb = 1;
             put_to_receiver((3)); /* ABORT_ACK */
          fi;
       fi;
     }
     d_step { done() } }
:: atomic { /* to_sender: ABORT arrives */
     if
     :: d_step { (to_sender_0 & 8) -> to_sender_0 = to_sender_0 - 8 }
     fi;
     d_step {
       if
       :: s_peer ->
          s_failed = 1;
          sender_PEER_FAILED();
          s_answer_abort();
       :: else ->
          if
          :: s_tomb ->
             put_to_receiver((3)); /* ABORT_ACK */
          :: else ->
             s_tomb = 1;
             put_to_receiver((3)); /* ABORT_ACK */
          fi;
       fi;
     }
     d_step { done() } }
:: atomic { /* to_sender: ABORT_ACK arrives */
     if
     :: d_step { (to_sender_0 & 16) -> to_sender_0 = to_sender_0 - 16; in_quarantined = 0 }
     :: d_step { (to_sender_0 & 32) -> to_sender_0 = to_sender_0 - 32; in_quarantined = 1 }
     fi;
     d_step {
       if
       :: s_peer ->
          s_acked = 1;
          if
          :: in_quarantined ->
             if
             :: (s_drained == 0) ->
                if
                :: !(copy0_state == LeaseState_FREE || copy0_state == LeaseState_HANDED) ->
                   copy0_PEER_UNRESOLVED();
                :: else
                fi;
             :: else
             fi;
          :: else ->
             s_drained = 1;
             s_drain();
          fi;
       :: else
       fi;
     }
     d_step { done() } }
:: atomic { /* to_sender: QUERY arrives */
     if
     :: d_step { (to_sender_0 & 64) -> to_sender_0 = to_sender_0 - 64 }
     fi;
     d_step {
       if
       :: s_peer ->
          sender_QUERIED();
       :: else ->
          if
          :: s_tomb ->
             to_receiver_0 = to_receiver_0 | 64; /* NO_LEG */
          :: else ->
             to_receiver_0 = to_receiver_0 | 64; /* NO_LEG */
          fi;
       fi;
     }
     d_step { done() } }
:: atomic { /* to_sender: LIVE arrives */
     if
     :: d_step { (to_sender_0 & 128) -> to_sender_0 = to_sender_0 - 128; in_meta = 0; in_parts = 0; in_total = 0; in_answer = 0 }
     :: d_step { (to_sender_0 & 256) -> to_sender_0 = to_sender_0 - 256; in_meta = 0; in_parts = 0; in_total = 0; in_answer = 1 }
     :: d_step { (to_sender_0 & 512) -> to_sender_0 = to_sender_0 - 512; in_meta = 0; in_parts = 0; in_total = 1; in_answer = 0 }
     :: d_step { (to_sender_0 & 1024) -> to_sender_0 = to_sender_0 - 1024; in_meta = 0; in_parts = 0; in_total = 1; in_answer = 1 }
     :: d_step { (to_sender_0 & 2048) -> to_sender_0 = to_sender_0 - 2048; in_meta = 0; in_parts = 1; in_total = 0; in_answer = 0 }
     :: d_step { (to_sender_0 & 4096) -> to_sender_0 = to_sender_0 - 4096; in_meta = 0; in_parts = 1; in_total = 0; in_answer = 1 }
     :: d_step { (to_sender_0 & 8192) -> to_sender_0 = to_sender_0 - 8192; in_meta = 0; in_parts = 1; in_total = 1; in_answer = 0 }
     :: d_step { (to_sender_0 & 16384) -> to_sender_0 = to_sender_0 - 16384; in_meta = 0; in_parts = 1; in_total = 1; in_answer = 1 }
     :: d_step { (to_sender_0 & 32768) -> to_sender_0 = to_sender_0 - 32768; in_meta = 1; in_parts = 0; in_total = 0; in_answer = 0 }
     :: d_step { (to_sender_0 & 65536) -> to_sender_0 = to_sender_0 - 65536; in_meta = 1; in_parts = 0; in_total = 0; in_answer = 1 }
     :: d_step { (to_sender_0 & 131072) -> to_sender_0 = to_sender_0 - 131072; in_meta = 1; in_parts = 0; in_total = 1; in_answer = 0 }
     :: d_step { (to_sender_0 & 262144) -> to_sender_0 = to_sender_0 - 262144; in_meta = 1; in_parts = 0; in_total = 1; in_answer = 1 }
     :: d_step { (to_sender_0 & 524288) -> to_sender_0 = to_sender_0 - 524288; in_meta = 1; in_parts = 1; in_total = 0; in_answer = 0 }
     :: d_step { (to_sender_0 & 1048576) -> to_sender_0 = to_sender_0 - 1048576; in_meta = 1; in_parts = 1; in_total = 0; in_answer = 1 }
     :: d_step { (to_sender_0 & 2097152) -> to_sender_0 = to_sender_0 - 2097152; in_meta = 1; in_parts = 1; in_total = 1; in_answer = 0 }
     :: d_step { (to_sender_0 & 4194304) -> to_sender_0 = to_sender_0 - 4194304; in_meta = 1; in_parts = 1; in_total = 1; in_answer = 1 }
     fi;
     d_step {
       if
       :: s_peer ->
          if
          :: (in_meta && (s_meta == 0)) ->
             s_meta = 1;
             sender_arg_all = 1;
             sender_META();
          :: else
          fi;
          s_seen = ((s_seen < in_parts) -> in_parts : s_seen);
          s_total = ((s_total || in_total) -> 1 : 0);
          sender_LIVE();
          if
          :: in_answer ->
             sender_QUERIED();
          :: else
          fi;
       :: else ->
          if
          :: s_tomb ->
             to_receiver_0 = to_receiver_0 | 64; /* NO_LEG */
          :: else ->
             s_peer = 1;
             s_access_TAKE();
             if
             :: (sender_state == KVPoll_Success || sender_state == KVPoll_Failed) ->
                s_access_CLOSE();
             :: else
             fi;
             sender_arg_is_push = 0;
             sender_arg_all = 1;
             sender_BIND();
             if
             :: in_meta ->
                s_meta = 1;
                sender_arg_all = 1;
                sender_META();
             :: else
             fi;
          fi;
       fi;
     }
     d_step { done() } }
:: atomic { /* to_sender: OVER arrives */
     if
     :: d_step { (to_sender_0 & 8388608) -> to_sender_0 = to_sender_0 - 8388608; in_success = 0; in_drain = 0; in_answer = 0 }
     :: d_step { (to_sender_0 & 16777216) -> to_sender_0 = to_sender_0 - 16777216; in_success = 0; in_drain = 0; in_answer = 1 }
     :: d_step { (to_sender_0 & 33554432) -> to_sender_0 = to_sender_0 - 33554432; in_success = 0; in_drain = 1; in_answer = 0 }
     :: d_step { (to_sender_0 & 67108864) -> to_sender_0 = to_sender_0 - 67108864; in_success = 0; in_drain = 1; in_answer = 1 }
     :: d_step { (to_sender_0 & 134217728) -> to_sender_0 = to_sender_0 - 134217728; in_success = 0; in_drain = 2; in_answer = 0 }
     :: d_step { (to_sender_0 & 268435456) -> to_sender_0 = to_sender_0 - 268435456; in_success = 0; in_drain = 2; in_answer = 1 }
     :: d_step { (to_sender_0 & 536870912) -> to_sender_0 = to_sender_0 - 536870912; in_success = 1; in_drain = 0; in_answer = 0 }
     :: d_step { (to_sender_0 & 1073741824) -> to_sender_0 = to_sender_0 - 1073741824; in_success = 1; in_drain = 0; in_answer = 1 }
     :: d_step { (to_sender_1 & 1) -> to_sender_1 = to_sender_1 - 1; in_success = 1; in_drain = 1; in_answer = 0 }
     :: d_step { (to_sender_1 & 2) -> to_sender_1 = to_sender_1 - 2; in_success = 1; in_drain = 1; in_answer = 1 }
     :: d_step { (to_sender_1 & 4) -> to_sender_1 = to_sender_1 - 4; in_success = 1; in_drain = 2; in_answer = 0 }
     :: d_step { (to_sender_1 & 8) -> to_sender_1 = to_sender_1 - 8; in_success = 1; in_drain = 2; in_answer = 1 }
     fi;
     d_step {
       if
       :: s_peer ->
          if
          :: (in_success && (s_concluded == 0)) ->
             s_concluded = 1;
             s_drained = 1;
             s_drain();
             sender_arg_all = 1;
             sender_CONCLUDED();
          :: else
          fi;
          if
          :: ((in_success == 0) && (s_failed == 0)) ->
             s_failed = 1;
             sender_PEER_FAILED();
             s_answer_abort();
          :: else
          fi;
          if
          :: in_drain ->
             s_acked = 1;
             if
             :: (in_drain == 2) ->
                if
                :: (s_drained == 0) ->
                   if
                   :: !(copy0_state == LeaseState_FREE || copy0_state == LeaseState_HANDED) ->
                      copy0_PEER_UNRESOLVED();
                   :: else
                   fi;
                :: else
                fi;
             :: else ->
                s_drained = 1;
                s_drain();
             fi;
          :: else
          fi;
          if
          :: in_answer ->
             sender_QUERIED();
          :: else
          fi;
       :: else ->
          if
          :: s_tomb ->
             put_to_receiver((3)); /* ABORT_ACK */
          :: else ->
             s_tomb = 1;
             put_to_receiver((3)); /* ABORT_ACK */
          fi;
       fi;
     }
     d_step { done() } }
:: atomic { /* to_sender: a message is lost */
     if
     :: d_step { losses > 0 && (to_sender_0 & 1) -> to_sender_0 = to_sender_0 - 1 }
     :: d_step { losses > 0 && (to_sender_0 & 2) -> to_sender_0 = to_sender_0 - 2 }
     :: d_step { losses > 0 && (to_sender_0 & 4) -> to_sender_0 = to_sender_0 - 4 }
     :: d_step { losses > 0 && (to_sender_0 & 8) -> to_sender_0 = to_sender_0 - 8 }
     :: d_step { losses > 0 && (to_sender_0 & 16) -> to_sender_0 = to_sender_0 - 16 }
     :: d_step { losses > 0 && (to_sender_0 & 32) -> to_sender_0 = to_sender_0 - 32 }
     :: d_step { losses > 0 && (to_sender_0 & 64) -> to_sender_0 = to_sender_0 - 64 }
     :: d_step { losses > 0 && (to_sender_0 & 128) -> to_sender_0 = to_sender_0 - 128 }
     :: d_step { losses > 0 && (to_sender_0 & 256) -> to_sender_0 = to_sender_0 - 256 }
     :: d_step { losses > 0 && (to_sender_0 & 512) -> to_sender_0 = to_sender_0 - 512 }
     :: d_step { losses > 0 && (to_sender_0 & 1024) -> to_sender_0 = to_sender_0 - 1024 }
     :: d_step { losses > 0 && (to_sender_0 & 2048) -> to_sender_0 = to_sender_0 - 2048 }
     :: d_step { losses > 0 && (to_sender_0 & 4096) -> to_sender_0 = to_sender_0 - 4096 }
     :: d_step { losses > 0 && (to_sender_0 & 8192) -> to_sender_0 = to_sender_0 - 8192 }
     :: d_step { losses > 0 && (to_sender_0 & 16384) -> to_sender_0 = to_sender_0 - 16384 }
     :: d_step { losses > 0 && (to_sender_0 & 32768) -> to_sender_0 = to_sender_0 - 32768 }
     :: d_step { losses > 0 && (to_sender_0 & 65536) -> to_sender_0 = to_sender_0 - 65536 }
     :: d_step { losses > 0 && (to_sender_0 & 131072) -> to_sender_0 = to_sender_0 - 131072 }
     :: d_step { losses > 0 && (to_sender_0 & 262144) -> to_sender_0 = to_sender_0 - 262144 }
     :: d_step { losses > 0 && (to_sender_0 & 524288) -> to_sender_0 = to_sender_0 - 524288 }
     :: d_step { losses > 0 && (to_sender_0 & 1048576) -> to_sender_0 = to_sender_0 - 1048576 }
     :: d_step { losses > 0 && (to_sender_0 & 2097152) -> to_sender_0 = to_sender_0 - 2097152 }
     :: d_step { losses > 0 && (to_sender_0 & 4194304) -> to_sender_0 = to_sender_0 - 4194304 }
     :: d_step { losses > 0 && (to_sender_0 & 8388608) -> to_sender_0 = to_sender_0 - 8388608 }
     :: d_step { losses > 0 && (to_sender_0 & 16777216) -> to_sender_0 = to_sender_0 - 16777216 }
     :: d_step { losses > 0 && (to_sender_0 & 33554432) -> to_sender_0 = to_sender_0 - 33554432 }
     :: d_step { losses > 0 && (to_sender_0 & 67108864) -> to_sender_0 = to_sender_0 - 67108864 }
     :: d_step { losses > 0 && (to_sender_0 & 134217728) -> to_sender_0 = to_sender_0 - 134217728 }
     :: d_step { losses > 0 && (to_sender_0 & 268435456) -> to_sender_0 = to_sender_0 - 268435456 }
     :: d_step { losses > 0 && (to_sender_0 & 536870912) -> to_sender_0 = to_sender_0 - 536870912 }
     :: d_step { losses > 0 && (to_sender_0 & 1073741824) -> to_sender_0 = to_sender_0 - 1073741824 }
     :: d_step { losses > 0 && (to_sender_1 & 1) -> to_sender_1 = to_sender_1 - 1 }
     :: d_step { losses > 0 && (to_sender_1 & 2) -> to_sender_1 = to_sender_1 - 2 }
     :: d_step { losses > 0 && (to_sender_1 & 4) -> to_sender_1 = to_sender_1 - 4 }
     :: d_step { losses > 0 && (to_sender_1 & 8) -> to_sender_1 = to_sender_1 - 8 }
     fi;
     d_step { losses = losses - 1; done() } }
:: atomic { /* to_receiver: PART0 arrives */
     if
     :: d_step { (to_receiver_0 & 1) -> to_receiver_0 = to_receiver_0 - 1 }
     fi;
     d_step {
       if
       :: (r_bound == 0) ->
          r_bound = 1;
          receiver_arg_all = 1;
          receiver_BOUND();
       :: else
       fi;
       if
       :: (!(receiver_state == KVPoll_Success || receiver_state == KVPoll_Failed) && (r_heard0 == 0)) ->
          r_heard0 = 1;
          r_drain();
          receiver_arg_whole_now = (r_total && (op0 == 2));
          receiver_PARTS();
       :: else
       fi;
     }
     d_step { done() } }
:: atomic { /* to_receiver: CLOSE arrives */
     if
     :: d_step { (to_receiver_0 & 2) -> to_receiver_0 = to_receiver_0 - 2 }
     fi;
     d_step {
       if
       :: (r_bound == 0) ->
          r_bound = 1;
          receiver_arg_all = 1;
          receiver_BOUND();
       :: else
       fi;
       if
       :: (!(receiver_state == KVPoll_Success || receiver_state == KVPoll_Failed) && (r_total == 0)) ->
          r_total = 1;
          r_drain();
          receiver_arg_whole_now = (r_total && (op0 == 2));
          receiver_PARTS();
       :: else
       fi;
     }
     d_step { done() } }
:: atomic { /* to_receiver: ABORT arrives */
     if
     :: d_step { (to_receiver_0 & 4) -> to_receiver_0 = to_receiver_0 - 4 }
     fi;
     d_step {
       r_failed = 1;
       receiver_PEER_FAILED();
       r_answer_abort();
     }
     d_step { done() } }
:: atomic { /* to_receiver: ABORT_ACK arrives */
     if
     :: d_step { (to_receiver_0 & 8) -> to_receiver_0 = to_receiver_0 - 8; in_quarantined = 0 }
     :: d_step { (to_receiver_0 & 16) -> to_receiver_0 = to_receiver_0 - 16; in_quarantined = 1 }
     fi;
     d_step {
       r_acked = 1;
       if
       :: in_quarantined ->
          if
          :: (r_drained == 0) ->
             if
             :: !(buffer_state == LeaseState_FREE || buffer_state == LeaseState_HANDED) ->
                buffer_PEER_UNRESOLVED();
             :: else
             fi;
             if
             :: !(pages_state == LeaseState_FREE || pages_state == LeaseState_HANDED) ->
                pages_PEER_UNRESOLVED();
             :: else
             fi;
          :: else
          fi;
       :: else ->
          r_drained = 1;
          r_drain();
       fi;
     }
     d_step { done() } }
:: atomic { /* to_receiver: QUERY arrives */
     if
     :: d_step { (to_receiver_0 & 32) -> to_receiver_0 = to_receiver_0 - 32 }
     fi;
     d_step { receiver_QUERIED();
     }
     d_step { done() } }
:: atomic { /* to_receiver: NO_LEG arrives */
     if
     :: d_step { (to_receiver_0 & 64) -> to_receiver_0 = to_receiver_0 - 64 }
     fi;
     d_step {
       r_acked = 1;
       r_drained = 1;
       r_over = 1;
       r_drain();
       receiver_NO_LEG();
     }
     d_step { done() } }
:: atomic { /* to_receiver: LIVE arrives */
     if
     :: d_step { (to_receiver_0 & 128) -> to_receiver_0 = to_receiver_0 - 128; in_told0 = 0; in_closed = 0; in_meta = 0; in_answer = 0 }
     :: d_step { (to_receiver_0 & 256) -> to_receiver_0 = to_receiver_0 - 256; in_told0 = 0; in_closed = 0; in_meta = 0; in_answer = 1 }
     :: d_step { (to_receiver_0 & 512) -> to_receiver_0 = to_receiver_0 - 512; in_told0 = 0; in_closed = 0; in_meta = 1; in_answer = 0 }
     :: d_step { (to_receiver_0 & 1024) -> to_receiver_0 = to_receiver_0 - 1024; in_told0 = 0; in_closed = 0; in_meta = 1; in_answer = 1 }
     :: d_step { (to_receiver_0 & 2048) -> to_receiver_0 = to_receiver_0 - 2048; in_told0 = 0; in_closed = 1; in_meta = 0; in_answer = 0 }
     :: d_step { (to_receiver_0 & 4096) -> to_receiver_0 = to_receiver_0 - 4096; in_told0 = 0; in_closed = 1; in_meta = 0; in_answer = 1 }
     :: d_step { (to_receiver_0 & 8192) -> to_receiver_0 = to_receiver_0 - 8192; in_told0 = 0; in_closed = 1; in_meta = 1; in_answer = 0 }
     :: d_step { (to_receiver_0 & 16384) -> to_receiver_0 = to_receiver_0 - 16384; in_told0 = 0; in_closed = 1; in_meta = 1; in_answer = 1 }
     :: d_step { (to_receiver_0 & 32768) -> to_receiver_0 = to_receiver_0 - 32768; in_told0 = 1; in_closed = 0; in_meta = 0; in_answer = 0 }
     :: d_step { (to_receiver_0 & 65536) -> to_receiver_0 = to_receiver_0 - 65536; in_told0 = 1; in_closed = 0; in_meta = 0; in_answer = 1 }
     :: d_step { (to_receiver_0 & 131072) -> to_receiver_0 = to_receiver_0 - 131072; in_told0 = 1; in_closed = 0; in_meta = 1; in_answer = 0 }
     :: d_step { (to_receiver_0 & 262144) -> to_receiver_0 = to_receiver_0 - 262144; in_told0 = 1; in_closed = 0; in_meta = 1; in_answer = 1 }
     :: d_step { (to_receiver_0 & 524288) -> to_receiver_0 = to_receiver_0 - 524288; in_told0 = 1; in_closed = 1; in_meta = 0; in_answer = 0 }
     :: d_step { (to_receiver_0 & 1048576) -> to_receiver_0 = to_receiver_0 - 1048576; in_told0 = 1; in_closed = 1; in_meta = 0; in_answer = 1 }
     :: d_step { (to_receiver_0 & 2097152) -> to_receiver_0 = to_receiver_0 - 2097152; in_told0 = 1; in_closed = 1; in_meta = 1; in_answer = 0 }
     :: d_step { (to_receiver_0 & 4194304) -> to_receiver_0 = to_receiver_0 - 4194304; in_told0 = 1; in_closed = 1; in_meta = 1; in_answer = 1 }
     fi;
     d_step {
       if
       :: (r_bound == 0) ->
          r_bound = 1;
          receiver_arg_all = 1;
          receiver_BOUND();
       :: else
       fi;
       if
       :: (in_told0 || in_closed) ->
          if
          :: (!(receiver_state == KVPoll_Success || receiver_state == KVPoll_Failed) && ((in_told0 && (r_heard0 == 0)) || (in_closed && (r_total == 0)))) ->
             r_heard0 = ((r_heard0 || in_told0) -> 1 : 0);
             r_total = ((r_total || in_closed) -> 1 : 0);
             r_drain();
             receiver_arg_whole_now = (r_total && (op0 == 2));
             receiver_PARTS();
          :: else
          fi;
       :: else
       fi;
       r_saw_announce = 1;
       r_saw_meta = ((r_saw_meta || in_meta) -> 1 : 0);
       receiver_LIVE();
       if
       :: in_answer ->
          receiver_QUERIED();
       :: else
       fi;
     }
     d_step { done() } }
:: atomic { /* to_receiver: OVER arrives */
     if
     :: d_step { (to_receiver_0 & 8388608) -> to_receiver_0 = to_receiver_0 - 8388608; in_success = 0; in_drain = 0; in_heard = 0; in_answer = 0 }
     :: d_step { (to_receiver_0 & 16777216) -> to_receiver_0 = to_receiver_0 - 16777216; in_success = 0; in_drain = 0; in_heard = 0; in_answer = 1 }
     :: d_step { (to_receiver_0 & 33554432) -> to_receiver_0 = to_receiver_0 - 33554432; in_success = 0; in_drain = 0; in_heard = 1; in_answer = 0 }
     :: d_step { (to_receiver_0 & 67108864) -> to_receiver_0 = to_receiver_0 - 67108864; in_success = 0; in_drain = 0; in_heard = 1; in_answer = 1 }
     :: d_step { (to_receiver_0 & 134217728) -> to_receiver_0 = to_receiver_0 - 134217728; in_success = 0; in_drain = 1; in_heard = 0; in_answer = 0 }
     :: d_step { (to_receiver_0 & 268435456) -> to_receiver_0 = to_receiver_0 - 268435456; in_success = 0; in_drain = 1; in_heard = 0; in_answer = 1 }
     :: d_step { (to_receiver_0 & 536870912) -> to_receiver_0 = to_receiver_0 - 536870912; in_success = 0; in_drain = 1; in_heard = 1; in_answer = 0 }
     :: d_step { (to_receiver_0 & 1073741824) -> to_receiver_0 = to_receiver_0 - 1073741824; in_success = 0; in_drain = 1; in_heard = 1; in_answer = 1 }
     :: d_step { (to_receiver_1 & 1) -> to_receiver_1 = to_receiver_1 - 1; in_success = 0; in_drain = 2; in_heard = 0; in_answer = 0 }
     :: d_step { (to_receiver_1 & 2) -> to_receiver_1 = to_receiver_1 - 2; in_success = 0; in_drain = 2; in_heard = 0; in_answer = 1 }
     :: d_step { (to_receiver_1 & 4) -> to_receiver_1 = to_receiver_1 - 4; in_success = 0; in_drain = 2; in_heard = 1; in_answer = 0 }
     :: d_step { (to_receiver_1 & 8) -> to_receiver_1 = to_receiver_1 - 8; in_success = 0; in_drain = 2; in_heard = 1; in_answer = 1 }
     :: d_step { (to_receiver_1 & 16) -> to_receiver_1 = to_receiver_1 - 16; in_success = 1; in_drain = 0; in_heard = 0; in_answer = 0 }
     :: d_step { (to_receiver_1 & 32) -> to_receiver_1 = to_receiver_1 - 32; in_success = 1; in_drain = 0; in_heard = 0; in_answer = 1 }
     :: d_step { (to_receiver_1 & 64) -> to_receiver_1 = to_receiver_1 - 64; in_success = 1; in_drain = 0; in_heard = 1; in_answer = 0 }
     :: d_step { (to_receiver_1 & 128) -> to_receiver_1 = to_receiver_1 - 128; in_success = 1; in_drain = 0; in_heard = 1; in_answer = 1 }
     :: d_step { (to_receiver_1 & 256) -> to_receiver_1 = to_receiver_1 - 256; in_success = 1; in_drain = 1; in_heard = 0; in_answer = 0 }
     :: d_step { (to_receiver_1 & 512) -> to_receiver_1 = to_receiver_1 - 512; in_success = 1; in_drain = 1; in_heard = 0; in_answer = 1 }
     :: d_step { (to_receiver_1 & 1024) -> to_receiver_1 = to_receiver_1 - 1024; in_success = 1; in_drain = 1; in_heard = 1; in_answer = 0 }
     :: d_step { (to_receiver_1 & 2048) -> to_receiver_1 = to_receiver_1 - 2048; in_success = 1; in_drain = 1; in_heard = 1; in_answer = 1 }
     :: d_step { (to_receiver_1 & 4096) -> to_receiver_1 = to_receiver_1 - 4096; in_success = 1; in_drain = 2; in_heard = 0; in_answer = 0 }
     :: d_step { (to_receiver_1 & 8192) -> to_receiver_1 = to_receiver_1 - 8192; in_success = 1; in_drain = 2; in_heard = 0; in_answer = 1 }
     :: d_step { (to_receiver_1 & 16384) -> to_receiver_1 = to_receiver_1 - 16384; in_success = 1; in_drain = 2; in_heard = 1; in_answer = 0 }
     :: d_step { (to_receiver_1 & 32768) -> to_receiver_1 = to_receiver_1 - 32768; in_success = 1; in_drain = 2; in_heard = 1; in_answer = 1 }
     fi;
     d_step {
       if
       :: (r_bound == 0) ->
          r_bound = 1;
          receiver_arg_all = 1;
          receiver_BOUND();
       :: else
       fi;
       r_over = 1;
       r_saw_announce = 1;
       r_saw_over = ((r_saw_over || in_heard) -> 1 : 0);
       if
       :: ((in_success == 0) && (r_failed == 0)) ->
          r_failed = 1;
          receiver_PEER_FAILED();
          r_answer_abort();
       :: else
       fi;
       if
       :: in_drain ->
          r_acked = 1;
          if
          :: (in_drain == 2) ->
             if
             :: (r_drained == 0) ->
                if
                :: !(buffer_state == LeaseState_FREE || buffer_state == LeaseState_HANDED) ->
                   buffer_PEER_UNRESOLVED();
                :: else
                fi;
                if
                :: !(pages_state == LeaseState_FREE || pages_state == LeaseState_HANDED) ->
                   pages_PEER_UNRESOLVED();
                :: else
                fi;
             :: else
             fi;
          :: else ->
             r_drained = 1;
             r_drain();
          fi;
       :: else
       fi;
       if
       :: in_answer ->
          receiver_QUERIED();
       :: else
       fi;
     }
     d_step { done() } }
:: atomic { /* to_receiver: a message is lost */
     if
     :: d_step { losses > 0 && (to_receiver_0 & 1) -> to_receiver_0 = to_receiver_0 - 1 }
     :: d_step { losses > 0 && (to_receiver_0 & 2) -> to_receiver_0 = to_receiver_0 - 2 }
     :: d_step { losses > 0 && (to_receiver_0 & 4) -> to_receiver_0 = to_receiver_0 - 4 }
     :: d_step { losses > 0 && (to_receiver_0 & 8) -> to_receiver_0 = to_receiver_0 - 8 }
     :: d_step { losses > 0 && (to_receiver_0 & 16) -> to_receiver_0 = to_receiver_0 - 16 }
     :: d_step { losses > 0 && (to_receiver_0 & 32) -> to_receiver_0 = to_receiver_0 - 32 }
     :: d_step { losses > 0 && (to_receiver_0 & 64) -> to_receiver_0 = to_receiver_0 - 64 }
     :: d_step { losses > 0 && (to_receiver_0 & 128) -> to_receiver_0 = to_receiver_0 - 128 }
     :: d_step { losses > 0 && (to_receiver_0 & 256) -> to_receiver_0 = to_receiver_0 - 256 }
     :: d_step { losses > 0 && (to_receiver_0 & 512) -> to_receiver_0 = to_receiver_0 - 512 }
     :: d_step { losses > 0 && (to_receiver_0 & 1024) -> to_receiver_0 = to_receiver_0 - 1024 }
     :: d_step { losses > 0 && (to_receiver_0 & 2048) -> to_receiver_0 = to_receiver_0 - 2048 }
     :: d_step { losses > 0 && (to_receiver_0 & 4096) -> to_receiver_0 = to_receiver_0 - 4096 }
     :: d_step { losses > 0 && (to_receiver_0 & 8192) -> to_receiver_0 = to_receiver_0 - 8192 }
     :: d_step { losses > 0 && (to_receiver_0 & 16384) -> to_receiver_0 = to_receiver_0 - 16384 }
     :: d_step { losses > 0 && (to_receiver_0 & 32768) -> to_receiver_0 = to_receiver_0 - 32768 }
     :: d_step { losses > 0 && (to_receiver_0 & 65536) -> to_receiver_0 = to_receiver_0 - 65536 }
     :: d_step { losses > 0 && (to_receiver_0 & 131072) -> to_receiver_0 = to_receiver_0 - 131072 }
     :: d_step { losses > 0 && (to_receiver_0 & 262144) -> to_receiver_0 = to_receiver_0 - 262144 }
     :: d_step { losses > 0 && (to_receiver_0 & 524288) -> to_receiver_0 = to_receiver_0 - 524288 }
     :: d_step { losses > 0 && (to_receiver_0 & 1048576) -> to_receiver_0 = to_receiver_0 - 1048576 }
     :: d_step { losses > 0 && (to_receiver_0 & 2097152) -> to_receiver_0 = to_receiver_0 - 2097152 }
     :: d_step { losses > 0 && (to_receiver_0 & 4194304) -> to_receiver_0 = to_receiver_0 - 4194304 }
     :: d_step { losses > 0 && (to_receiver_0 & 8388608) -> to_receiver_0 = to_receiver_0 - 8388608 }
     :: d_step { losses > 0 && (to_receiver_0 & 16777216) -> to_receiver_0 = to_receiver_0 - 16777216 }
     :: d_step { losses > 0 && (to_receiver_0 & 33554432) -> to_receiver_0 = to_receiver_0 - 33554432 }
     :: d_step { losses > 0 && (to_receiver_0 & 67108864) -> to_receiver_0 = to_receiver_0 - 67108864 }
     :: d_step { losses > 0 && (to_receiver_0 & 134217728) -> to_receiver_0 = to_receiver_0 - 134217728 }
     :: d_step { losses > 0 && (to_receiver_0 & 268435456) -> to_receiver_0 = to_receiver_0 - 268435456 }
     :: d_step { losses > 0 && (to_receiver_0 & 536870912) -> to_receiver_0 = to_receiver_0 - 536870912 }
     :: d_step { losses > 0 && (to_receiver_0 & 1073741824) -> to_receiver_0 = to_receiver_0 - 1073741824 }
     :: d_step { losses > 0 && (to_receiver_1 & 1) -> to_receiver_1 = to_receiver_1 - 1 }
     :: d_step { losses > 0 && (to_receiver_1 & 2) -> to_receiver_1 = to_receiver_1 - 2 }
     :: d_step { losses > 0 && (to_receiver_1 & 4) -> to_receiver_1 = to_receiver_1 - 4 }
     :: d_step { losses > 0 && (to_receiver_1 & 8) -> to_receiver_1 = to_receiver_1 - 8 }
     :: d_step { losses > 0 && (to_receiver_1 & 16) -> to_receiver_1 = to_receiver_1 - 16 }
     :: d_step { losses > 0 && (to_receiver_1 & 32) -> to_receiver_1 = to_receiver_1 - 32 }
     :: d_step { losses > 0 && (to_receiver_1 & 64) -> to_receiver_1 = to_receiver_1 - 64 }
     :: d_step { losses > 0 && (to_receiver_1 & 128) -> to_receiver_1 = to_receiver_1 - 128 }
     :: d_step { losses > 0 && (to_receiver_1 & 256) -> to_receiver_1 = to_receiver_1 - 256 }
     :: d_step { losses > 0 && (to_receiver_1 & 512) -> to_receiver_1 = to_receiver_1 - 512 }
     :: d_step { losses > 0 && (to_receiver_1 & 1024) -> to_receiver_1 = to_receiver_1 - 1024 }
     :: d_step { losses > 0 && (to_receiver_1 & 2048) -> to_receiver_1 = to_receiver_1 - 2048 }
     :: d_step { losses > 0 && (to_receiver_1 & 4096) -> to_receiver_1 = to_receiver_1 - 4096 }
     :: d_step { losses > 0 && (to_receiver_1 & 8192) -> to_receiver_1 = to_receiver_1 - 8192 }
     :: d_step { losses > 0 && (to_receiver_1 & 16384) -> to_receiver_1 = to_receiver_1 - 16384 }
     :: d_step { losses > 0 && (to_receiver_1 & 32768) -> to_receiver_1 = to_receiver_1 - 32768 }
     fi;
     d_step { losses = losses - 1; done() } }
od }
