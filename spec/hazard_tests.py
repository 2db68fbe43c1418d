"""Which tests hold each hazard of :mod:`hazards <.hazards>`, and which hazards no test of ours can hold."""

from __future__ import annotations

__all__ = ["HELD", "OUTSIDE"]


def _in(file: str, *names: str) -> tuple[str, ...]:
    """Ids of tests of ``tests/FILE.py``; each name without its leading ``test_``."""
    return tuple(f"tests/{file}.py::test_{name}" for name in names)


_ABSORBS = _in("protocol/test_interpreter", "a_terminal_state_absorbs_every_signal_at_every_node")
_LATE = _in("cases/test_identity", "no_late_word_takes_a_room_back_to_an_earlier_state")
_TOMB = _in("protocol/test_legs", "everything_late_about_a_tombstone_is_answered_and_creates_nothing")
_HALF = _in("protocol/test_attempt", "a_room_of_which_one_leg_never_comes_ends_within_the_pairing_deadline")
_REUSE = _in("protocol/test_core", "a_room_number_can_be_used_again_at_once")
_GROUP = _in("cases/test_ranks", "a_decision_depends_on_the_reports_and_on_nothing_else")
_TWO_RANKS = _in("protocol/test_legs", "a_leg_of_two_receiver_ranks_waits_for_both")
_ABORTS = _in("runtime/test_handoff_faults", "an_abort_ends_both_ends_with_the_reason_and_every_lease_comes_back")
_OTHERS = _in("runtime/test_handoff_faults", "a_failed_operation_fails_both_ends_and_other_rooms_go_on")
_QUEUE = _in("cases/test_peers", "an_error_in_one_room_changes_nothing_for_the_rooms_behind_it")
_GARBAGE = _in("runtime/test_wire_garbage", "rooms_succeed_while_strangers_send_garbage_to_every_socket")
_BYTES = _in(
    "protocol/test_codec", "arbitrary_bytes_are_refused_or_understood", "mutated_frames_are_refused_or_understood"
)
_REFUSED = _in("cases/test_compatibility", "a_pair_that_cannot_work_is_refused_by_name_and_no_data_moves")
_DCP = _in(
    "protocol/test_handshake",
    "a_dense_prefill_rank_serves_each_decode_context_parallel_rank_and_equal_ones_meet",
)
_AUX_NAMES = _in("protocol/test_handshake", "aux_fields_pair_by_name_and_never_by_place")
_RELAYED = _in("protocol/test_codec", "an_old_peer_relays_tags_of_any_level_byte_for_byte")
_REPLACED = _in(
    "cases/test_peers", "a_peer_that_is_replaced_at_its_address_is_noticed_and_only_the_new_one_is_spoken_to"
)
_ANSWERS = _in("cases/test_timeouts", "every_answer_to_a_transfer_reaches_the_engine")
_CLOCKS = _in("cases/test_leases", "no_clock_of_one_end_means_anything_at_the_other")
_ASSERTS = _in("spec/test_hazards", "no_step_stands_inside_an_assert_and_no_deadline_goes_by_the_wall_clock")
_KEYS = _in("spec/test_hazards", "no_attempt_uses_a_key_again_whatever_became_of_the_last_one")
_JAX_KEYS = _in("transports/test_jax_pull", "keys_are_63_bits_on_an_open_link_and_not_twice")
_NO_STALL = _in(
    "transports/test_jax_processes",
    "a_stopped_receiver_stalls_nobody_else_and_reads_nothing_after_the_fence",
    "a_stopped_sender_stalls_nobody_else_and_is_cancelled_and_fenced_while_it_stands",
)
_LOOK_UPS = _in(
    "cases/test_lookups",
    "services_that_never_answer_hold_up_no_room_of_another_prefill",
    "no_look_up_runs_on_a_thread_of_the_engine_or_of_the_control_sockets",
)

#: Hazard -> pytest ids.
HELD: dict[str, tuple[str, ...]] = {
    # -- state machines
    "Q01": _ABSORBS + _LATE,
    "Q02": _TOMB + _in("cases/test_leak", "nothing_that_is_said_of_a_room_that_is_gone_touches_one_that_lives"),
    "Q03": _ABSORBS + _in("protocol/test_sender", "a_late_abort_of_a_room_that_succeeded_stays_without_effect"),
    "Q04": _TOMB + _HALF,
    "Q05": _REUSE + _in("cases/test_identity", "a_request_that_is_retracted_starts_anew_whatever_became_of_it_before"),
    "Q06": _TWO_RANKS + _GROUP,
    "Q07": _in("protocol/test_attempt", "an_abort_fails_both_ends_with_its_reason_and_every_lease_comes_back_once"),
    "Q08": _in("cases/test_propagation", "a_prefill_leg_that_fails_ends_the_decode_leg_with_its_cause_within_a_bound")
    + _in("cases/test_timeouts", "a_local_deadline_is_told_to_the_other_end_at_once"),
    "Q09": _in(
        "cases/test_timeouts", "every_waiting_state_of_either_table_has_clocks_that_end_it_whatever_its_fields_are"
    )
    + _in("protocol/test_attempt", "every_waiting_state_ends_by_the_total_deadline_at_the_latest"),
    "Q10": _in("protocol/test_receiver", "a_gate_has_a_deadline_and_the_failure_names_it")
    + _in(
        "runtime/test_handoff",
        "aux_data_that_was_asked_for_and_never_sent_fails_before_the_commit",
        "any_u64_is_a_room",
    ),
    "Q11": _in("cases/test_ranks", "a_rank_that_is_not_there_is_looked_up_on_one_thread_and_given_up_in_time"),
    "Q12": _in(
        "protocol/test_interpreter", "a_row_that_cannot_happen_is_a_failure_with_cause_internal_and_never_an_exception"
    ),
    "Q13": _in("protocol/test_legs", "an_ABORT_before_the_leg_exists_leaves_a_tombstone_and_creates_nothing")
    + _in("runtime/test_handoff_faults", "an_abort_before_init_is_heard_by_the_prefill_end"),
    "Q14": _ABSORBS,
    "Q15": _in(
        "protocol/test_sender",
        "a_chunk_that_cannot_be_is_refused_naming_the_field_and_changes_nothing",
        "nothing_follows_the_last_chunk",
    ),
    # -- threads that die
    "Q16": _QUEUE + _OTHERS,
    "Q17": _in(
        "runtime/test_handoff",
        "many_rooms_at_once_from_several_engine_threads",
        "two_threads_that_ask_for_leases_until_the_last_one_is_gone_never_stumble",
    ),
    "Q18": _GARBAGE
    + _in("cases/test_trust", "messages_that_were_broken_on_the_way_end_no_loop_and_touch_no_other_room"),
    "Q19": _ABORTS + _in("cases/test_stopping", "an_abort_in_every_stage_by_every_role_ends_the_room_and_nothing_else"),
    "Q20": _BYTES + _in("protocol/test_codec", "a_wrong_value_is_refused_by_the_name_of_its_field"),
    "Q21": _REFUSED
    + _in(
        "runtime/test_handoff_faults", "engines_that_do_not_fit_are_refused_by_field_and_other_pairs_are_undisturbed"
    ),
    "Q22": _in("runtime/test_seal", "noise_opens_nothing", "another_secret_opens_nothing")
    + _in("runtime/test_handoff_faults", "ends_with_different_secrets_never_meet_and_the_receiver_says_so"),
    # -- memory safety
    "Q23": _in(
        "runtime/test_aux_slots",
        "a_length_that_points_past_the_frame_is_wrong",
        "content_that_does_not_fit_is_refused_and_the_slot_stays_as_it_was",
    ),
    "Q24": _in("protocol/test_attempt", "a_timeout_frees_no_memory")
    + _in("cases/test_lifetime", "memory_goes_to_nobody_else_before_the_last_operation_on_it_has_ended"),
    "Q25": _in("cases/test_stopping", "memory_of_a_process_that_stops_is_given_back_only_when_nobody_reaches_it"),
    "Q26": _in("protocol/test_sender", "destinations_that_do_not_fit_the_request_are_refused_and_never_truncated")
    + _in("protocol/test_receiver", "a_closed_plan_that_leaves_tokens_out_is_never_a_success"),
    "Q27": _DCP
    + _in("protocol/plans/test_dcp", "what_cannot_be_is_refused_before_any_work_by_field_and_number")
    + _in("protocol/test_coverage", "a_part_outside_the_request_is_refused_naming_the_field")
    + _in("kernels/test_page_errors", "bad_page_ids_are_named"),
    "Q28": _in("cases/test_data", "two_hosts_that_send_the_same_layer_are_refused_and_not_merged")
    + _in("protocol/test_coverage", "a_plan_covers_a_request_when_every_token_of_every_layer_is_carried"),
    "Q29": _in("protocol/test_sender", "an_aux_part_counts_in_the_plan_but_carries_no_tokens")
    + _in("runtime/test_aux_slots", "a_slot_is_wrong_for_any_other_request")
    + _in("protocol/test_aux", "only_the_last_pipeline_stage_sends_aux_data"),
    "Q30": _AUX_NAMES + _in("protocol/test_aux", "the_order_of_the_fields_means_nothing"),
    # -- wire
    "Q31": _RELAYED + _in("protocol/test_snapshot", "order_of_declaration_is_not_in_the_digest"),
    "Q32": _DCP,
    "Q33": _RELAYED + _in("runtime/test_bootstrap_http", "unknown_keys_are_accepted_in_every_body"),
    "Q34": _AUX_NAMES,
    "Q35": _in(
        "runtime/test_bootstrap_registry",
        "registering_again_never_counts_twice",
        "an_engine_is_ready_exactly_when_its_last_rank_is_live",
    ),
    "Q36": _in("protocol/test_codec", "a_value_that_cannot_be_written_is_our_mistake"),
    "Q37": _in(
        "protocol/test_snapshot",
        "the_wire_of_version_1_0_is_the_frozen_one",
        "what_a_peer_can_notice_changes_the_digest",
    ),
    "Q38": _in("protocol/test_codec", "an_unknown_kind_is_a_matter_of_versions_and_can_be_answered"),
    "Q39": _TWO_RANKS + _in("protocol/test_legs", "a_copy_of_ANNOUNCE_for_a_half_open_attempt_makes_no_second_one"),
    "Q40": _REFUSED,
    # -- leaks and blocking
    "Q41": _in("protocol/test_core", "after_a_thousand_rooms_every_table_is_empty_and_every_lease_came_back_once")
    + _in("cases/test_peers", "links_are_bounded_by_the_peers_that_live_however_many_there_ever_were"),
    "Q42": _OTHERS
    + _in(
        "cases/test_timeouts", "an_operation_that_never_ends_fails_its_room_in_time_and_is_fenced_before_memory_is_free"
    ),
    "Q43": _in("runtime/test_shell", "what_waits_to_be_sent_is_bounded_and_the_newest_stays")
    + _in("transports/test_zmq_peers", "a_stopped_process_blocks_neither_other_peers_nor_closing"),
    "Q44": _LOOK_UPS,
    "Q45": _in("protocol/test_links", "a_silent_peer_is_declared_lost_by_both_and_fenced")
    + _in("cases/test_peers", "a_peer_that_goes_without_a_word_is_noticed_whatever_moves_the_data"),
    "Q46": _REPLACED + _in("protocol/test_links", "a_lost_peer_is_met_again_on_a_new_link_only"),
    "Q47": _in("cases/test_loss", "a_word_that_is_lost_is_said_again_until_it_is_answered")
    + _in("protocol/test_staging", "asking_again_repeats_the_grant_and_keeps_the_place_in_the_queue"),
    "Q48": _in(
        "cases/test_identity",
        "requests_that_share_a_room_meet_their_own_leg_or_none",
        "a_room_that_is_live_is_refused_at_both_ends_and_goes_on_unharmed",
    ),
    "Q49": _ASSERTS,
    "Q50": _in("spec/test_hazards", "an_abort_ends_the_room_of_its_handle_and_none_whose_number_begins_alike"),
    "Q51": _ASSERTS + _CLOCKS,
    "Q52": _in("runtime/test_control", "links_that_can_be_dialled_are_bounded")
    + _in("runtime/test_handoff_faults", "no_thread_stays_behind"),
    "Q53": _in("protocol/test_legs", "legs_of_different_requests_never_pair_and_the_fields_are_named"),
    "Q54": _in("protocol/test_codec", "a_wrong_value_is_refused_by_the_name_of_its_field"),
    "Q55": _in("cases/test_ranks", "ranks_that_know_of_different_rooms_still_agree_about_each_room")
    + _in("protocol/test_group", "the_order_of_the_votes_means_nothing"),
    "Q56": _in(
        "cases/test_compatibility", "a_part_that_would_land_across_other_pages_is_refused_before_it_is_called_whole"
    ),
    # -- JAX systems
    "J01": _in("transports/test_jax_pull", "an_array_that_failed_at_the_sender_is_never_a_success")
    + _in("cases/test_stopping", "a_transfer_that_turns_to_an_error_is_a_failure_and_never_data"),
    "J02": _in(
        "transports/test_jax_processes",
        "a_killed_peer_fails_its_pulls_and_only_those_and_a_new_link_reaches_its_successor",
    ),
    "J03": _NO_STALL,
    "J04": _ABORTS,
    "J06": _in(
        "transports/test_jax_pull",
        "another_shape_or_dtype_is_never_a_success",
        "a_payload_without_our_label_is_never_a_success",
    ),
    "J07": _JAX_KEYS,
    "J08": _BYTES + _GARBAGE,
    "J09": _JAX_KEYS + _KEYS,
    "J10": _in("cases/test_ranks", "every_rank_that_a_receiver_can_ask_for_was_registered_by_the_rank_that_it_means"),
    "J11": _in("runtime/test_bootstrap_keeper", "a_restarted_registry_is_told_everything_again_at_once")
    + _in("runtime/test_handoff_faults", "a_registry_that_was_restarted_is_registered_at_again_and_rooms_go_on"),
    "J12": _in("protocol/test_sender", "pulls_are_capped_by_the_receivers_credits")
    + _in("transports/test_jax_fences", "queued_operations_run_once_a_connection_is_free"),
    "J13": _in(
        "runtime/test_seal",
        "a_replayed_frame_opens_nothing",
        "a_recorded_first_frame_opens_no_second_link_and_no_link_that_is_over",
    ),
    "J14": _REPLACED
    + _in("runtime/test_processes", "a_killed_prefill_process_ends_its_rooms_here_and_its_successor_serves_the_next"),
    "J15": _KEYS + _in("transports/test_jax_pull", "a_forgotten_key_leaves_nothing_and_a_late_pull_ends_by_cancel"),
    "J16": _in("docs/test_docs_fresh", "every_generated_page_and_block_is_up_to_date"),
    "J17": _BYTES + _GARBAGE,
    "J18": _in("runtime/test_handoff", "leases_are_yielded_once_to_whichever_thread_asks")
    + _in("cases/test_leak", "a_transfer_ends_once_and_frees_once_whether_it_ends_before_or_after_the_abort"),
    "J19": _in("runtime/test_handoff", "a_receiver_that_holds_everything_and_wants_no_aux_data_gets_an_empty_plan"),
    "J20": _ANSWERS,
    "J21": _in(
        "protocol/test_receiver", "commit_is_refused_in_a_failed_room", "commit_is_refused_while_a_part_is_missing"
    ),
    "J22": _CLOCKS,
    "J23": _ABORTS + _in("transports/test_jax_fences", "a_key_released_while_in_flight_leaves_nothing"),
    "J24": _in("runtime/test_slices", "a_gather_that_raises_half_way_fails_the_room_and_returns_its_pages"),
    "J25": _KEYS + _in("protocol/test_core", "gens_only_rise"),
    "J26": _in("kernels/test_xla", "scatter_writes_the_buffers_of_the_pool_and_kills_the_old_arrays"),
    "J27": _in("kernels/test_xla", "the_number_of_scatter_programs_grows_with_the_logarithm_of_the_page_count"),
    "J28": _in(
        "transports/test_jax_servers",
        "a_port_that_somebody_shares_is_not_ours",
        "a_listener_that_joins_our_port_later_is_seen",
    ),
}

#: Hazard -> why no test of ours can hold it.
OUTSIDE: dict[str, str] = {
    "J05": "the port is jax's own and cannot be authenticated from here; docs/operations.md says where to bind it",
}
