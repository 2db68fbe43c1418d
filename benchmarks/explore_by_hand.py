"""The world that :mod:`.explore` measures, written by hand: plain tuples and ifs, the way a model is written from scratch.

It keeps what the declared world keeps: both machines, five kinds of lease, what each end heard, messages in flight, and a
budget of losses. In this world nothing fails, so a lease needs one small number, and what a table keeps in several fields is
often one. It is the fastest that this author could write, and shares no line with what it is compared with.
"""

from __future__ import annotations

from itertools import product
from typing import TypeAlias

__all__ = ["PARTS", "START", "over", "search", "successors"]

PARTS = 4
B, W, T, S = range(4)
FREE, HELD, FLIGHT, HANDED = range(4)
ALL = (1 << PARTS) - 1

# Messages are bits. To the sender: fixed ones, then LIVE of the receiver (meta, parts, total, answer).
ANNOUNCE, META, CONCLUDE, OVER_TOLD, OVER_ASKS = (1 << n for n in range(5))
LIVE_R = {fields: 32 << n for n, fields in enumerate(product((0, 1), range(PARTS + 1), (0, 1), (0, 1)))}
# To the receiver: each part, fixed ones, then LIVE of the sender (told, closed, meta, answer).
CLOSE, OVER = 1 << PARTS, 2 << PARTS
LIVE_S = {fields: 4 << PARTS << n for n, fields in enumerate(product(range(ALL + 1), (0, 1), (0, 1), (0, 1)))}
FIELDS_R, FIELDS_S = {bit: f for f, bit in LIVE_R.items()}, {bit: f for f, bit in LIVE_S.items()}
COUNT = [mask.bit_count() for mask in range(ALL + 1)]

State: TypeAlias = tuple[int, ...]

#: Sender: state, paired, meta, parts seen, total seen, peer acked, sent, flying, done, lent copies, doubt, access lease.
#: Receiver: state, linked, given, bound, total, heard, sender over, saw announce, saw meta, saw over, whole, ready, busy,
#: buffer, pages and access lease. Then losses, and what is in flight to the sender and to the receiver.
START: State = (B, *[0] * 10, FREE, B, *[0] * 12, FREE, FREE, HELD, 1, 0, 0)


def search() -> tuple[int, int]:
    """States and edges of everything that can happen."""
    seen, todo, edges = {START}, [START], 0
    for state in todo:
        for other in successors(state):
            edges += 1
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return len(seen), edges


def over(state: State) -> bool:
    """Both succeeded, nothing is in flight, and nothing has to be said again."""
    return state[0] == state[12] == S and not state[-1] and not state[-2] and bool(state[18] or state[21])


# fmt: off
def successors(state: State) -> list[State]:
    (ss, peer, meta, seen, told, acked, sent, flying, done, lent, doubt, access,
     rs, link, given, bound, total, heard, over, saw_a, saw_m, saw_o, whole, ready, busy, buffer, pages, r_access,
     losses, to_s, to_r) = state
    sender = (ss, peer, meta, seen, told, acked, sent, flying, done, lent, doubt, access)
    receiver = (rs, link, given, bound, total, heard, over, saw_a, saw_m, saw_o, whole, ready, busy, buffer, pages, r_access)
    assert not flying & ~lent
    assert not flying or buffer == FLIGHT
    assert not heard & flying
    assert not busy or (buffer == FLIGHT and pages == FLIGHT)
    assert ss != S or rs == S
    assert rs != S or done == ALL
    out: list[State] = []
    add = out.append
    if sent < PARTS:  # the prefill engine sends
        state_s, flies, doubtful, acc, says = ss, flying, doubt, access, to_r
        if W <= ss <= T:
            state_s, flies, acc = T, flying | 1 << sent, FLIGHT
            if sent + 1 == PARTS:
                says, doubtful = to_r | CLOSE, 1
        add((state_s, peer, meta, seen, told, acked, sent + 1, flies, done, lent | 1 << sent, doubtful, acc,
             *receiver, losses, to_s, says))
    if flying:  # a part is written
        for part in range(PARTS):
            bit = 1 << part
            if flying & bit:
                flies = flying & ~bit
                add((ss, peer, meta, seen, told, acked, sent, flies, done | bit, lent & ~bit, doubt, FLIGHT if flies else HELD,
                     *receiver, losses, to_s, to_r | bit))
    if not to_s and not to_r:  # facts are said again
        closed = sent == PARTS and W <= ss <= T
        if peer and meta and ss != S and (COUNT[done] > seen or (closed and not told)):
            add((*sender, *receiver, losses, to_s, to_r | LIVE_S[done, closed, meta, 1]))
        if link:
            if rs == S:
                if not over and not saw_o:
                    add((*sender, *receiver, losses, to_s | OVER_ASKS, to_r))
            elif not whole and ((not saw_a and not bound) or (given and not (saw_m or total or heard))):
                add((*sender, *receiver, losses, to_s | LIVE_R[given, COUNT[heard], total, 1], to_r))
    if not link:  # the link opens
        if given:
            add((*sender, W, 1, given, bound, total, heard, over, saw_a, saw_m, saw_o, whole, ready, busy,
                 FLIGHT, pages, r_access, losses, to_s | META, to_r))
        else:
            add((*sender, rs, 1, given, bound, total, heard, over, saw_a, saw_m, saw_o, whole, ready, busy,
                 buffer, pages, r_access, losses, to_s | ANNOUNCE, to_r))
    if not given:  # the decode engine hands pages over
        if link:
            add((*sender, W, link, 1, bound, total, heard, over, saw_a, saw_m, saw_o, whole, ready, busy,
                 FLIGHT, HELD, r_access, losses, to_s | META, to_r))
        else:
            add((*sender, rs, link, 1, bound, total, heard, over, saw_a, saw_m, saw_o, whole, ready, busy,
                 HELD, HELD, r_access, losses, to_s, to_r))
    if ready and rs == T and not busy:  # the decode engine commits
        add((*sender, rs, link, given, bound, total, heard, over, saw_a, saw_m, saw_o, whole, ready, 1,
             FLIGHT, FLIGHT, r_access, losses, to_s, to_r))
    if busy:
        add((*sender, S, link, given, bound, total, heard, over, saw_a, saw_m, saw_o, whole, ready, 0,
             HANDED, HANDED, HANDED, losses, to_s | CONCLUDE, to_r))
    left = to_s
    while left:
        bit = left & -left
        left -= bit
        add(sender_hears(bit, sender, receiver, losses, to_s - bit, to_r))
        if losses:
            add((*sender, *receiver, losses - 1, to_s - bit, to_r))
    left = to_r
    while left:
        bit = left & -left
        left -= bit
        add(receiver_hears(bit, sender, receiver, losses, to_s, to_r - bit))
        if losses:
            add((*sender, *receiver, losses - 1, to_s, to_r - bit))
    return out


def sender_hears(bit: int, sender: State, receiver: State, losses: int, to_s: int, to_r: int) -> State:
    ss, peer, meta, seen, told, acked, sent, flying, done, lent, doubt, access = sender
    if CONCLUDE <= bit <= OVER_ASKS:
        acked = acked if bit == CONCLUDE else 1
        return (S, peer, meta, seen, told, acked, sent, flying, done, lent, 0, HANDED, *receiver, losses, to_s, to_r | OVER)
    has_meta: int = bit == META
    pairs, answer = True, 0
    if bit > META:
        has_meta, parts, total, answer = FIELDS_R[bit]
        if peer:
            pairs, has_meta = False, has_meta and not meta
            seen, told = max(seen, parts), told | total
        else:
            answer = 0
    closed = sent == PARTS and W <= ss <= T
    if pairs:
        if not peer:
            peer, access = 1, HELD
        to_r |= OVER if ss == S else LIVE_S[done, closed, meta, 0]
    if has_meta:
        meta = 1
        if ss == B:
            ss, closed = W, sent == PARTS
            if sent:
                ss, access, flying = T, FLIGHT, (1 << sent) - 1
            if closed:
                to_r, doubt = to_r | CLOSE, 1
        to_r |= OVER if ss == S else LIVE_S[done, closed, 1, 0]
    if answer:
        to_r |= OVER if ss == S else LIVE_S[done, closed, meta, 0]
    return (ss, peer, meta, seen, told, acked, sent, flying, done, lent, doubt, access, *receiver, losses, to_s, to_r)


def receiver_hears(bit: int, sender: State, receiver: State, losses: int, to_s: int, to_r: int) -> State:
    rs, link, given, _, total, heard, over, saw_a, saw_m, saw_o, whole, ready, busy, buffer, pages, r_access = receiver
    parts = closed = answer = 0
    if bit == OVER:
        over = saw_a = saw_o = 1
    elif bit == CLOSE:
        closed = 1
    elif bit < CLOSE:
        parts = bit
    else:
        parts, closed, said_meta, answer = FIELDS_S[bit]
        saw_a, saw_m = 1, saw_m | said_meta
    if rs != S and (parts & ~heard or (closed and not total)):
        heard, total, rs = heard | parts, total | closed, T
        if total and heard == ALL:
            whole, ready, buffer = 1, 1, HELD
    if answer:
        to_s |= OVER_TOLD if rs == S else LIVE_R[given and link, COUNT[heard], total, 0]
    return (*sender, rs, link, given, 1, total, heard, over, saw_a, saw_m, saw_o, whole, ready, busy,
            buffer, pages, r_access, losses, to_s, to_r)
# fmt: on
