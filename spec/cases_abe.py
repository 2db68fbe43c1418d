"""Cases of the groups A (lifetime of memory), B (data) and E (identity). See :mod:`cases <.cases>`."""

from __future__ import annotations

from .case import Case, tests_in

__all__ = ["CASES_ABE"]

_ENDS_FIRST = "memory_goes_to_nobody_else_before_the_last_operation_on_it_has_ended"
_PINNED = "source_pages_are_pinned_until_they_are_read_and_copies_until_nobody_reads_them"
_FREES_ONCE = "a_transfer_ends_once_and_frees_once_whether_it_ends_before_or_after_the_abort"
_SLOT = "a_slot_is_empty_right_or_wrong_and_never_mistaken"
_SLOTS = "a_small_pool_of_slots_serves_many_rooms_and_none_sees_anothers"
_NUMBERS = "parts_of_two_ranks_with_the_same_numbers_are_two_parts_each"
_DEAF = "an_end_that_is_never_heard_again_does_not_hold_up_the_other_for_ever"
_LIVE = "a_room_that_is_live_is_refused_at_both_ends_and_goes_on_unharmed"
_SHARED = "two_decode_engines_with_one_room_never_share_its_data"
_DROPPED_HANDLE = "dropping_a_handle_loses_neither_the_memory_nor_the_answer"

CASES_ABE: tuple[Case, ...] = (
    # -- A: lifetime of memory
    Case(
        "A01", "Pages of an aborted request are lent again while its sender still writes into them", "NoFreeInFlight",
        tests_in("lifetime", _ENDS_FIRST),
    ),
    Case(
        "A02", "A deadline ends the request, and is taken for the end of the transfer too", "UniformRelease",
        tests_in("lifetime", _ENDS_FIRST),
    ),
    Case(
        "A03", "An abort is acknowledged when it is read, with a write still running", "AckMeansQuiescent",
        tests_in("drain", "an_abort_is_acknowledged_when_the_last_operation_has_ended_and_not_when_it_is_heard"),
    ),
    Case(
        "A04", "Cleaning up a failed room forgets whom to tell once it has drained", "EventuallyReleased",
        tests_in(
            "drain",
            "an_end_that_cleaned_up_still_answers_once_it_has_drained",
            "an_answer_that_is_lost_is_given_again",
        )
        + tests_in("engines", _DROPPED_HANDLE),
    ),
    Case(
        "A05", "Several decode ranks abort one room and only the last of them is answered", "EventuallyReleased",
        tests_in("drain", "every_rank_that_aborts_is_answered_whoever_else_does"),
    ),
    Case(
        "A07", "A chunk that is skipped in a failed room wipes the count of what is still in flight", "CountExact",
        tests_in("drain", "what_is_skipped_in_a_failed_room_hides_nothing_that_is_in_flight"),
    ),
    Case(
        "A08", "A transport that cannot acknowledge, and a cleared room that acknowledges too soon", "AckMeansQuiescent",
        tests_in(
            "drain",
            "an_abort_needs_no_clock_over_any_kind_of_transport",
            "an_attempt_that_failed_with_operations_in_flight_is_never_unknown",
            "an_attempt_that_was_never_known_is_acknowledged_and_can_start_nothing_later",
        ),
    ),
    Case(
        "A10", "An abort of the decode side does not stop a prefill that is sending chunks", "TerminalPropagates",
        tests_in(
            "lifetime",
            "no_chunk_starts_after_the_abort_was_heard",
            "a_chunk_that_crosses_the_abort_lands_in_memory_that_is_still_its_own",
        ),
    ),
    Case(
        "A11", "An abort waits for a completion that was taken before, and the pages leak", "ExactlyOnceFree",
        tests_in(
            "leak", _FREES_ONCE, "an_abort_after_the_completion_was_taken_frees_at_once_and_once"
        ),
    ),
    Case(
        "A12", "Pages that wait for a word of a peer that died are never taken back", "EventuallyReleased",
        tests_in(
            "leak",
            "memory_comes_back_from_a_peer_that_never_speaks_again",
            "data_that_comes_after_the_fence_lands_nowhere",
        ),
    ),
    Case(
        "A14", "A completion of a request that is gone, or a second one, ends the engine", "TotalHandlers",
        tests_in(
            "leak",
            "nothing_that_is_said_of_a_room_that_is_gone_touches_one_that_lives",
            "a_completion_of_an_unknown_operation_or_peer_changes_nothing",
        )
        + tests_in("engines", "reports_that_come_twice_or_are_nobodys_are_dropped"),
    ),
    Case(
        "A15", "One of several transfers of a request fails and its pages go while the others still write",
        "NoFreeInFlight",
        tests_in("lifetime", "one_handle_that_fails_frees_nothing_while_its_sibling_writes"),
    ),
    Case(
        "A18", "A timeout destroys what the transport still refers to", "UnresolvedIsNotFree",
        tests_in(
            "lifetime", _ENDS_FIRST, _PINNED,
            "a_sender_that_gives_up_waiting_keeps_what_the_transport_refers_to",
        ),
    ),
    Case(
        "A19", "Timeouts are handled only when a request is admitted, so a full pool stays full", "EventuallyReleased",
        tests_in(
            "leak",
            "a_full_process_empties_itself_although_nothing_new_is_admitted",
            "credits_of_rooms_that_ended_serve_the_next_one",
        ),
    ),
    Case(
        "A21", "Source pages are evicted before a background sender reads them, and the receiver is told nothing",
        "NoFreeInFlight",
        tests_in("lifetime", _PINNED, "a_send_that_cannot_be_done_fails_the_room_at_both_ends"),
    ),
    Case(
        "A23", "A completion is filtered out because the abort has taken its id off a list", "ExactlyOnceFree",
        tests_in("leak", _FREES_ONCE) + tests_in("engines", _DROPPED_HANDLE),
    ),
    # -- B: data
    Case(
        "B01", "A chunk is sent before the device work that computes it has ended", "ReadAfterCompute",
        tests_in(
            "data",
            "a_chunk_is_read_after_the_device_work_that_writes_it_whatever_its_neighbours_do",
            "a_chunk_whose_device_work_ends_after_the_room_is_never_read",
        ),
    ),
    Case(
        "B02", "A first token of another request is read from an aux slot that was used again", "AuxSelfIdentifying",
        tests_in("sidecar", "an_aux_slot_is_nobody_elses_while_its_data_may_still_come", _SLOT, _SLOTS),
    ),
    Case(
        "B03", "Under load, aux slots are found to hold another room's data", "AuxSelfIdentifying",
        tests_in("sidecar", _SLOT, _SLOTS),
    ),
    Case(
        "B05", "Chunk numbers of two pipeline stages are counted as one set, and half the layers are missing",
        "CompleteOrNotSuccess",
        tests_in("data", _NUMBERS),
    ),
    Case(
        "B07", "One lost notification leaves the receiver waiting for ever for data that it has", "LossSurvivable",
        tests_in("loss", "a_word_that_is_lost_is_said_again_until_it_is_answered", _DEAF),
    ),
    Case(
        "B08", "One lost acknowledgement of the wire breaks the sender's queue, and the receiver hears nothing",
        "TerminalPropagates",
        tests_in("loss", "a_transport_that_does_not_know_what_became_of_its_data_says_so", _DEAF),
    ),
    Case(
        "B10", "A prompt that prefill rejected is handed over all the same, with nothing computed", "NoDoneWithoutData",
        tests_in(
            "data",
            "a_prefill_that_is_rejected_never_looks_like_a_hand_off",
            "a_leg_of_a_dummy_request_never_meets_the_real_one",
        ),
    ),
    Case(
        "B11", "All ranks agree that a request failed, but only some know why", "GroupDecisionImmutable",
        tests_in("data", "every_rank_gives_the_same_status_and_reason_whoever_hears_of_it_first"),
    ),
    Case(
        "B12", "Answers get worse with the number of requests served", "NoFreeInFlight",
        tests_in("loss", "what_a_room_gets_depends_on_its_own_prompt_whatever_happened_before"),
    ),
    Case(
        "B15", "Prefill sends hidden states of another model than decode expects, and top-k values are made up",
        "HandshakeSound",
        tests_in(
            "sidecar",
            "a_sidecar_that_the_two_ends_do_not_mean_alike_is_refused_by_its_name",
            "fields_are_met_by_name_whatever_their_order",
            "an_engine_whose_sidecar_differs_is_refused_before_any_data_and_others_go_on",
        ),
    ),
    Case(
        "B16", "Recurrent state is sent by numbers of attention pages, and its slot is reused before the copy",
        "CompleteOrNotSuccess",
        tests_in("data", "data_of_another_kind_does_not_count_as_kv_and_its_memory_waits_for_the_copy_too")
        + tests_in("sidecar", "a_number_is_only_taken_for_the_pool_it_belongs_to"),
    ),
    Case(
        "B17", "Each host of a prefill engine lends only its own shard, and the receiver asks one of them",
        "CompleteOrNotSuccess",
        tests_in(
            "data", _NUMBERS,
            "a_receiver_that_asks_only_one_of_two_hosts_never_succeeds_with_a_part_of_the_data",
            "two_hosts_that_send_the_same_layer_are_refused_and_not_merged",
        ),
    ),
    # -- E: identity
    Case(
        "E01", "Two posts with one room end both schedulers", "Isolation",
        tests_in("identity", _LIVE, _SHARED),
    ),
    Case(
        "E03", "A room that is derived from a missing request id is every request's room", "AttemptUnique",
        tests_in(
            "identity", _LIVE, _SHARED,
            "requests_that_share_a_room_meet_their_own_leg_or_none",
            "every_attempt_of_an_engine_has_a_number_of_its_own",
        ),
    ),
    Case(
        "E04", "Both engines make an id of their own for one request and wait for each other's", "SameRequest",
        tests_in(
            "identity",
            "both_ends_call_an_attempt_the_same_and_every_word_of_it_carries_that_name",
            "two_ends_that_name_a_request_differently_say_so_within_the_pairing_deadline",
        ),
    ),
    Case(
        "E07", "A request that was retracted reads the state of its first attempt", "AttemptUnique",
        tests_in("identity", "a_request_that_is_retracted_starts_anew_whatever_became_of_it_before"),
    ),
    Case(
        "E08", "A request is computed again by another prefill rank than the receiver is bound to", "HalfOpenEnds",
        tests_in("identity", "a_recomputed_request_meets_the_rank_that_computes_it_or_ends_soon"),
    ),
    Case(
        "E10", "A late registration takes a transferring request back to bootstrapping", "TerminalAbsorbing",
        tests_in("identity", "no_late_word_takes_a_room_back_to_an_earlier_state"),
    ),
)  # fmt: skip
