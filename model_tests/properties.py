"""Every invariant by its name: what it says, how it is checked, and the situations in which it says something.

An invariant that holds because nothing ever happens holds vacuously. So each has ``sometimes``: situations of which each
must be met in some world of a selection. A world that meets one notes ``mark(name, situation)`` in its ``seen``.
An invariant that the worlds cannot express says which tests hold it instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["FAIRNESS", "LIVENESS", "PROPERTIES", "Kind", "Property", "mark"]

#: Under what liveness is claimed. The names are those of actions; see :mod:`.actions`.
FAIRNESS = (
    "what can happen again and again happens some time: a message in flight arrives, an operation reports, work of the "
    "engine ends, a fence that was asked for is proved, a dead peer is declared lost, and, when nothing is on its way any "
    "more, a clock goes off. Where a world says that its engines act, their calls come too. Faults never have to happen."
)


class Kind(Enum):
    """How an invariant is checked."""

    ALWAYS = "always"  #: in every state, or on every edge
    LEADS_TO = "leads to"  #: from every state, under FAIRNESS
    TESTS = "tests"  #: not here: by the tests in ``where``


@dataclass(frozen=True)
class Property:
    """One invariant."""

    name: str
    kind: Kind
    sentence: str
    sometimes: tuple[str, ...] = ()
    where: tuple[str, ...] = ()  #: tests that hold it, or what of it the worlds cannot express, as ``path::name``

    @property
    def marks(self) -> tuple[str, ...]:
        return tuple(mark(self.name, situation) for situation in self.sometimes)


def mark(name: str, situation: str) -> str:
    """What a world notes when it meets a situation."""
    return f"{name}: {situation}"


def _always(name: str, sentence: str, *sometimes: str, where: tuple[str, ...] = ()) -> Property:
    return Property(name, Kind.ALWAYS, sentence, sometimes, where)


def _leads_to(name: str, sentence: str, *sometimes: str) -> Property:
    return Property(name, Kind.LEADS_TO, sentence, sometimes)


def _tests(name: str, sentence: str, *where: str) -> Property:
    return Property(name, Kind.TESTS, sentence, where=where)


_ALL = (
    _always(
        "NoFreeInFlight",
        "memory that an operation, a gather or a commit can still touch is lent to its room, and was not handed back",
        "an operation is in flight",
        "a room is over while an operation can touch its memory",
    ),
    _always(
        "AckMeansQuiescent",
        "who says that nothing of it can touch the other end's memory is right",
        "it is said when the last operation has ended",
    ),
    _always(
        "CountExact",
        "what a process counts as started and not quiescent is what is in flight, for each attempt and peer rank",
        "an operation is in flight",
        "an operation is unresolved",
    ),
    _always(
        "CreditsConserved",
        "as many credits are out as there are operations, and all are back at an idle end",
        "an operation is in flight",
        "a credit comes back when a room fails",
        "a request waits for a staging slot",
        "a staging slot comes back when a room fails",
    ),
    _always(
        "NoWriteAfterArrival",
        "a part that counts as arrived is not written again",
        "a part has arrived while another is in flight",
    ),
    _always(
        "SuccessOrder",
        "a sender is Success only when its receivers are; a sender that failed although they are says that it is in doubt",
        "a sender succeeds",
        "a sender fails in doubt, and its receiver succeeds",
        "a sender fails without doubt",
    ),
    _always(
        "SameRequest",
        "the two legs of an attempt are of the same request",
        "legs of two requests stand at both ends",
        "legs of one request are paired",
    ),
    _always(
        "UniformRelease",
        "memory comes back by one rule, whatever ended the room",
        "a room that succeeded gets its memory back",
        "an abort ends a room while an operation can touch its memory",
        "a deadline ends a room while an operation can touch its memory",
        "the loss of its peer ends a room while an operation can touch its memory",
        "a shutdown ends a room while an operation can touch its memory",
    ),
    _always(
        "UnresolvedIsNotFree",
        "memory under an operation that is unresolved does not come back before a fence is proved",
        "an operation is unresolved",
        "a fence is proved, and memory comes back",
    ),
    _always(
        "LeaseCommit",
        "pull: when a read ends well, its source is still lent, and was all the time",
        "a read ends",
    ),
    _always(
        "ExactlyOnceFree",
        "every lease comes back once: never twice, and not zero times before its room is forgotten",
        "a lease comes back",
        "a room is forgotten",
    ),
    _always(
        "TerminalAbsorbing",
        "Success and Failed are never left, and no message makes a room anew",
        "a message reaches an end that is over",
    ),
    _always(
        "TotalHandlers",
        "every input is decided: none raises, and no row fires that its table calls impossible",
        "a message changes nothing",
    ),
    _always(
        "Isolation",
        "an input of one room leaves the state, leases and counters of every other room as they were",
        "a message of one room reaches a process that has another",
    ),
    _always(
        "AttemptUnique",
        "an attempt has one session at each process, and no number is given twice",
        "both ends know one attempt",
        "a room is tried a second time",
    ),
    _always(
        "InstanceMatches",
        "a message for another instance changes no room",
        "a message for a dead instance reaches its successor",
    ),
    _always(
        "CompleteOrNotSuccess",
        "a receiver that is Success has the bytes of every part of its plan",
        "a receiver succeeds with everything",
        "a receiver fails with parts missing",
    ),
    _always(
        "NoDoneWithoutData",
        "an end is not believed before everything was started, whatever the receiver says",
        "a receiver lies before everything was started",
    ),
    _always(
        "ReadAfterCompute",
        "no part is moved before its gather has ended",
        "a gather ends, and its part is moved",
    ),
    _always(
        "EvidenceBeforeDeadline",
        "a room asks before it gives up, who is asked answers, and what has arrived is handled before a deadline is judged",
        "a room is asked about",
        where=(
            "tests/protocol/test_attempt.py::test_a_deadline_is_judged_against_what_was_delivered_before",
            "tests/protocol/test_attempt.py::test_nothing_rearms_the_total_deadline",
            "tests/runtime/test_shell.py::test_a_frame_that_has_arrived_is_handled_before_a_deadline_that_is_due",
        ),
    ),
    _leads_to(
        "EveryRoomEnds",
        "every room reaches Success or Failed at every process that lives",
        "a room succeeds",
        "a room fails",
    ),
    _leads_to(
        "TerminalPropagates",
        "what is over at one end gets over at every other end that lives",
        "one end is over and the other is not",
    ),
    _leads_to(
        "LossSurvivable",
        "where one message is lost or copied, and nothing else happens, both ends succeed",
        "a message is lost",
        "a message is copied",
    ),
    _leads_to(
        "EventuallyReleased",
        "every lease of a room that is over comes back, or waits for a fence that nothing can prove",
        "a room is over, and its memory comes back later",
    ),
    _leads_to(
        "IdleEmpty",
        "without live rooms every table, queue and count is empty, and nothing is in flight",
        "everything is idle after a room",
    ),
    _leads_to(
        "HalfOpenEnds",
        "a room of which only one leg ever arrives is gone with its pairing deadline",
        "the pairing deadline ends a leg",
        "the pairing deadline ends an announced attempt",
    ),
    _leads_to(
        "ShutdownEnds",
        "a process that is shut down ends its rooms at both ends",
        "a shutdown finds a live room",
    ),
    _tests(
        "RegistryIsFunction",
        "a live instance's registration changes only by its holder",
        "tests/runtime/test_bootstrap_registry.py::test_knowing_the_instance_id_is_not_enough_to_change_its_entry",
        "tests/runtime/test_bootstrap_registry.py::"
        "test_a_second_instance_on_a_live_key_is_told_holder_and_remaining_time_and_changes_nothing",
    ),
    _tests(
        "AuxSelfIdentifying",
        "an aux slot says whose it is: empty, right and wrong are three answers",
        "tests/runtime/test_aux_slots.py::test_a_slot_is_wrong_for_any_other_request",
        "tests/runtime/test_aux_slots.py::test_a_slot_that_was_given_back_is_empty_for_the_next_owner",
        "tests/runtime/test_aux_records.py::test_a_slot_of_another_attempt_of_the_same_request_is_wrong",
        "tests/protocol/test_aux.py::test_a_field_that_was_not_written_is_not_there_and_a_zero_is",
    ),
    _tests(
        "PositionsAbsolute",
        "ranges are absolute token ranges, lengths agree at both ends, and too few destinations are a refusal",
        "tests/protocol/test_coverage.py::test_a_part_outside_the_request_is_refused_naming_the_field",
        "tests/protocol/test_sender.py::test_destinations_that_do_not_fit_the_request_are_refused_and_never_truncated",
    ),
    _tests(
        "HandshakeSound",
        "a handshake that is ok makes every later plan well-formed; a refusal names the fields to both ends",
        "tests/protocol/test_handshake.py::test_both_ends_refuse_the_same_fields",
        "tests/protocol/test_handshake.py::test_any_two_registrations_get_a_verdict_that_fits_into_a_refusal",
    ),
    _always(
        "GroupDecisionImmutable",
        "a group that is decided stays so, whatever is reported later, and by whomever; only a doubt may end",
        "a group fails while a rank has not reported",
        "a doubt ends with a later report",
        where=(
            "tests/protocol/test_group.py::test_a_failed_group_stays_failed_whatever_is_reported_later",
            "tests/protocol/test_group.py::test_the_order_of_the_votes_means_nothing",
        ),
    ),
    _tests(
        "BoundedByPeers",
        "tables, sockets and logs are bounded by live peers and configuration",
        "tests/protocol/test_legs.py::test_half_open_attempts_are_bounded_and_the_one_too_many_is_told",
        "tests/protocol/test_links.py::test_links_are_bounded_at_either_end",
        "tests/protocol/test_core.py::test_rooms_are_bounded_and_the_error_names_the_table_and_the_limit",
    ),
)

#: By name.
PROPERTIES: dict[str, Property] = {each.name: each for each in _ALL}
#: The names of those that are leads-to.
LIVENESS = frozenset(each.name for each in _ALL if each.kind is Kind.LEADS_TO)
