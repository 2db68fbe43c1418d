"""Every hazard that was found in real engines, and why it cannot happen here (or what remains of it).

``Q..`` are SGLang's quirks, ``J..`` those of the two JAX systems. ``by`` says what stands against it: a table row, an
invariant, a type, a rule of a transport. A hazard that is not the protocol's says whose it is.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["HAZARDS", "Hazard"]


class Hazard(NamedTuple):
    id: str
    what: str
    by: str
    why: str


_H = Hazard
# fmt: off
HAZARDS: tuple[Hazard, ...] = (
    # -- state machines
    _H("Q01", "a failure is lost between read and write of the status",      "one lock, interpreter",      "only the interpreter moves a state, under the process's lock, and Failed has no row that leaves it"),
    _H("Q02", "a cleared room is written back by a race",                    "tombstones, low_water",      "records are dropped once nothing can speak of them; later messages are answered and create nothing"),
    _H("Q03", "a success is revoked by a straggling failure",                "rows S/PEER_FAILED, S/ABORT", "Success is absorbing at both ends"),
    _H("Q04", "late metadata creates a zombie room",                         "rows F/META, half-open",     "META of a concluded attempt finds its tombstone; of an unknown one a half-open entry that ends with NO_LEG"),
    _H("Q05", "a stale failure record fails the next room of that id",       "attempts",                   "a failure is a field of its attempt's record and goes with it; a room id keys nothing but live legs"),
    _H("Q06", "votes are counted without identity",                          "peer records",               "facts are joined into the record of (link, rank); an unknown rank has none, a repeated one is the same"),
    _H("Q07", "abort without clear leaks entries",                           "settled",                    "a record goes when the attempt is settled, whether or not the engine clears its handle"),
    _H("Q08", "an abort is not told to the peer",                            "SEND_ABORT in every FAIL row", "each row that fails has SEND_ABORT and CLOSE; the table checker and mutants hold it to that"),
    _H("Q09", "W and T have no deadline on prefill",                         "TOTAL, SILENCE rows",        "each waiting state of both tables lists a clock that ends it"),
    _H("Q10", "decode waits for ever behind the metadata gate",              "GATE rows, aux content",     "each gate has a deadline; an aux slot says whose it is, room 0 included"),
    _H("Q11", "decode waits for ever for an unknown dp rank",                "PAIRING, HELLO_LATE",        "resolving an address is part of greeting a link, and that has a deadline"),
    _H("Q12", "an unexpected status kills the scheduler",                    "total tables",               "every (state, event) is decided; poll() only reads"),
    _H("Q13", "an abort before the room exists is dropped",                  "ANNOUNCE, tombstones",       "the attempt is announced at create; an ABORT for an unknown one leaves a tombstone and is acknowledged"),
    _H("Q14", "merge rules that let Failed be promoted",                     "tables",                     "there is no merge rule: states move by rows only"),
    _H("Q15", "the last chunk is an exact equality of counters",             "SenderSession.send",         "ranges are absolute and checked on every chunk; a last chunk that leaves tokens out is refused"),
    # -- threads that die
    _H("Q16", "a bad room kills a transfer worker",                          "Transport contract",         "a transport reports, it does not raise; a report fails one room"),
    _H("Q17", "a dict changes while a worker iterates it",                   "one lock, frozen records",   "records are immutable and replaced"),
    _H("Q18", "a malformed frame kills the bootstrap thread",                "codec",                      "whatever arrives is a message or a RemoteProtocolError, which is counted and dropped"),
    _H("Q19", "a backend without an ABORT handler dies of one",              "one core",                   "the protocol is above transports: all of them have abort"),
    _H("Q20", "unguarded parsing in the decode thread",                      "codec",                      "lengths, counts and types are checked before anything is looked at"),
    _H("Q21", "a mismatching peer kills the scheduler",                      "rows B/REFUSED",             "a refusal fails the rooms of that pair, and names the fields"),
    _H("Q22", "a consensus socket that anyone can write to",                 "sealed channel",             "with a secret every control frame is authenticated and counts once; there is no consensus store"),
    # -- memory safety
    _H("Q23", "aux data is written at an offset from the wire",              "AuxSlots.put",               "the receiver writes into its own slot, of a length it checked, on commit only"),
    _H("Q24", "a deferred release gives up after 30 s",                      "lease table, rule 2",        "no clock event exists in the lease table"),
    _H("Q25", "memory is released without telling the peer",                 "rows SHUTDOWN",              "shutdown fails rooms by message, and leases wait for the drain word or a fence"),
    _H("Q26", "fewer destination than source pages truncate silently",       "rows PLAN_REFUSED",          "page counts, ranges and byte sizes must agree, or the room is refused with the field named"),
    _H("Q27", "relayout arithmetic without range checks",                    "protocol/plans, gather_pages", "every number is checked before planning, and page ids before moving"),
    _H("Q28", "pipeline stages write each other's layers",                   "Part.layers",                "a part names its layers, checked against those that the rank owns"),
    _H("Q29", "every pipeline stage writes the aux slot",                    "aux is a part",              "aux data is a part of one sender rank's plan, and says whose it is"),
    _H("Q30", "aux rows shift with optional buffers",                        "AuxSchema",                  "buffers are compared by name in the handshake"),
    # -- wire
    _H("Q31", "an inserted field shifts the others",                         "tags",                       "fields have numbers that are never reused; order means nothing"),
    _H("Q32", "absent means a feature is off, silently",                     "UNSET, groups",              "presence is part of the type, and a feature is a group that the handshake compares"),
    _H("Q33", "an unknown key is fatal",                                     "unknown tags",               "skipped, counted and kept; the registry ignores unknown keys too"),
    _H("Q34", "state components pair by index",                              "PartKind, AuxSchema",        "components have kinds and names"),
    _H("Q35", "registry readiness counts PUTs",                              "Registry.engines",           "ready means that every rank is live now"),
    _H("Q36", "a None component raises in the scheduler",                    "types",                      "what is sent is a typed struct"),
    _H("Q37", "same frames, new meaning",                                    "snapshot",                   "the schema is frozen with a digest; a change of meaning is a new tag"),
    _H("Q38", "an unknown tag is read as a room",                            "tag 0",                      "the kind is a tag of its own; an unknown kind is refused by number"),
    _H("Q39", "quorum compared with == skips",                               "all(...) over peers",        "a fact of every required rank, not a count of messages"),
    _H("Q40", "TP sizes that do not divide",                                 "support matrix",             "refused in the handshake, naming the axis"),
    # -- leaks and blocking
    _H("Q41", "tables that only grow",                                       "BoundedByPeers",             "every table has a bound, and gauges that tests compare with idle"),
    _H("Q42", "one error blacklists a peer",                                 "links",                      "a failed operation fails its room; a peer is lost only by silence or its own word"),
    _H("Q43", "a blocking send under a lock",                                "outbox, HWM",                "sends never block: what does not fit is dropped and said again"),
    _H("Q44", "HTTP in scheduler loops",                                     "Resolver",                   "HTTP has threads of its own"),
    _H("Q45", "liveness is judged by the registry",                          "link table, rule 3",         "judged by what arrives on the link"),
    _H("Q46", "a second registration is ignored",                            "links",                      "a registration belongs to a link; a new start is a new link"),
    _H("Q47", "a lost staging request is never repeated",                    "SEND_FACTS",                 "every fact is re-sent until an answer contains it"),
    _H("Q48", "several requests share one room",                             "ROOM_BUSY, fingerprint",     "create on a live room is refused and leaves the live one alone; legs pair by content"),
    _H("Q49", "protocol steps inside assert",                                "rows",                       "steps are rows and effects; assert states facts for the type checker"),
    _H("Q50", "abort matches by prefix",                                     "handles",                    "an abort is a call on one handle"),
    _H("Q51", "deadlines on the wall clock",                                 "Env.now",                    "monotonic time, given as an argument"),
    _H("Q52", "a context replaced after binding",                            "ControlSockets",             "one context per process, made once"),
    _H("Q53", "prefix disagreement between decode ranks is not seen",        "Fingerprint",                "the prefix is part of what both legs must agree on"),
    _H("Q54", "bool('0') is true",                                           "types",                      "booleans are booleans on the wire"),
    _H("Q55", "reduction by position in a queue",                            "decide()",                   "votes are keyed by rank"),
    _H("Q56", "one entry length is used for all entries",                    "page_nbytes",                "bytes per page and layer are compared, and each part's bytes are checked"),
    # -- JAX systems
    _H("J01", "a failed pull counts as success",                             "JaxPullTransport",           "DONE only after waiting for the data raised nothing, in a worker, before anything uses it"),
    _H("J02", "cached links are never rebuilt",                              "links",                      "a link is never reopened; native connections go with it"),
    _H("J03", "one stopped decode stalls every other",                       "server pool",                "a transfer server for each peer"),
    _H("J04", "neither side can tell the other of an abort",                 "ABORT, ABORT_ACK",           "told at once, and answered when quiescent"),
    _H("J05", "unauthenticated bulk port",                                   "operations.md",              "remains: jax.experimental.transfer has no authentication; bind it to a private interface"),
    _H("J06", "geometry is never compared",                                  "handshake, labels",          "compared in the handshake; each payload also carries a label that the puller checks"),
    _H("J07", "a duplicate id unregisters the first one's callback",         "keys",                       "63 random bits for each part and reader; a key in use is refused"),
    _H("J08", "a bad frame kills the listener",                              "codec",                      "counted and dropped"),
    _H("J09", "hashed ids collide",                                          "keys",                       "random, never derived"),
    _H("J10", "router and decode pick different prefills",                   "bootstrap address",          "the room comes with the address of its prefill's bootstrap"),
    _H("J11", "registry restart: never registered again",                    "Keeper",                     "a heartbeat that is not known registers again"),
    _H("J12", "the pull clock starts in the queue",                          "credits",                    "an operation is submitted when a credit is free; deadlines are the room's"),
    _H("J13", "a replayable MAC",                                            "Channel",                    "keys for each link and direction, and a counter that only rises"),
    _H("J14", "a moved peer is never seen",                                  "Resolver",                   "an address is resolved for each new link"),
    _H("J15", "a dead pull consumes the next registration",                  "keys",                       "a fresh key for each attempt"),
    _H("J16", "documentation that is not true",                              "generated docs",             "tables, diagrams, knobs and wire are generated, examples are run"),
    _H("J17", "a frame that is no number kills the listener",                "codec",                      "counted and dropped"),
    _H("J18", "a host buffer is returned twice",                             "HAND_BACK",                  "a lease is handed back on entering one state, which it leaves only when picked"),
    _H("J19", "a full local hit never tells prefill",                        "empty plan",                 "prefix = N is a plan like any other, closed by message"),
    _H("J20", "a future's exception ends the engine",                        "reports",                    "outcomes are data"),
    _H("J21", "a timed-out pull is inserted anyway",                         "COMMIT rows",                "commit is legal only when whole; Failed refuses it"),
    _H("J22", "clocks of two processes are compared",                        "Deadlines",                  "durations travel, times never"),
    _H("J23", "an abort after the pull keeps the arrays",                    "buffer lease",               "what arrived goes with the buffer's lease"),
    _H("J24", "exceptions of a copy are swallowed",                          "KVSender.send",              "send() gathers on the caller's thread and raises there"),
    _H("J25", "a preempted request asks for the same id again",              "gen",                        "a new attempt has a new gen and new keys"),
    _H("J26", "padding copies the whole pool",                               "kernels",                    "rows are moved as unsigned words of the page, unpadded"),
    _H("J27", "one compilation for each page count",                         "kernels",                    "page counts are bucketed"),
    _H("J28", "a port that is not ours answers",                             "JaxPullTransport",           "the listening sockets are checked to be this process's own"),
)
# fmt: on
