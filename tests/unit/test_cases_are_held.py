"""Which tests hold which of the failures that people running Kafka, Spark and Delta pipelines have reported.

The sample bytes of the decode, number, time and schema cases are fixtures/cases.jsonl.
"""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SAMPLES = TESTS.parent / "fixtures" / "cases.jsonl"
KINDS = {
    "decode": 14, "number": 3, "time": 6, "schema": 7, "merge": 5,
    "checkpoint": 5, "kafka": 11, "dlq": 5, "replay": 2, "ops": 4,
}  # fmt: skip
SAMPLED = "transform/test_cases.py::test_each_record_has_its_route_code_and_row_when_decoded"

CASES: dict[str, tuple[str, ...]] = {
    "decode-01": (
        SAMPLED,
        "stream/test_main_job.py::test_good_records_land_and_bad_ones_are_dead_letters_when_a_topic_holds_both",
        "stream/test_options.py::test_every_record_lands_raw_beside_the_decoded_ones_when_the_stream_has_both_tables",
    ),
    "decode-02": (
        SAMPLED,
        "transform/test_csv_avro.py::test_a_frame_comes_off_when_the_topic_is_framed",
    ),
    "decode-03": (
        SAMPLED,
        "transform/test_csv_avro.py::test_quoting_is_rfc_4180_when_a_line_is_read",
        "dead_letters/test_replay.py::test_each_letter_stands_once_with_its_record_when_it_was_published_twice",
    ),
    "decode-04": (
        SAMPLED,
        "transform/test_json_grammar.py::test_the_last_value_counts_when_the_stream_is_not_strict",
    ),
    "decode-05": (SAMPLED,),
    "decode-06": (
        SAMPLED,
        "transform/test_values.py::test_every_fault_is_named_with_its_path_when_it_lies_deep",
    ),
    "decode-07": (
        SAMPLED,
        "transform/test_values.py::test_a_fault_is_found_when_a_query_selects_only_other_columns",
    ),
    "decode-08": (SAMPLED,),
    "decode-09": (
        SAMPLED,
        "transform/test_csv_avro.py::test_columns_are_counted_when_a_query_selects_one_of_them",
    ),
    "decode-10": (
        SAMPLED,
        "transform/test_csv_avro.py::test_quoting_is_rfc_4180_when_a_line_is_read",
    ),
    "decode-11": (SAMPLED,),
    "decode-12": (SAMPLED,),
    "decode-13": (
        SAMPLED,
        "transform/test_csv_avro.py::test_a_frame_comes_off_when_the_topic_is_framed",
    ),
    "decode-14": (
        SAMPLED,
        "stream/test_schema_ids.py::test_new_schema_ids_widen_the_plan_before_anything_commits_when_a_registry_has_them",
    ),
    "number-01": (
        SAMPLED,
        "transform/test_values.py::test_an_integer_is_exact_or_out_of_range_when_it_is_at_the_edge",
        "transform/test_csv_avro.py::test_text_is_typed_strictly_when_it_is_csv",
    ),
    "number-02": (
        SAMPLED,
        "transform/test_values.py::test_an_integer_is_exact_or_out_of_range_when_it_is_at_the_edge",
        "transform/test_values.py::test_a_decimal_is_never_rounded_when_it_has_more_digits",
    ),
    "number-03": (
        SAMPLED,
        "transform/test_values.py::test_no_infinity_is_stored_when_a_number_overflows",
        "transform/test_csv_avro.py::test_a_value_has_its_code_when_avro_holds_what_the_column_cannot",
    ),
    "time-01": (
        SAMPLED,
        "transform/test_values.py::test_an_epoch_number_needs_its_unit_when_it_is_a_timestamp",
    ),
    "time-02": (SAMPLED,),
    "time-03": (
        SAMPLED,
        "transform/test_values.py::test_text_without_an_offset_is_utc_when_the_session_is_elsewhere",
        "delta/test_session.py::test_session_jvm_and_python_live_in_utc",
        "stream/test_options.py::test_records_land_by_close_of_business_date_when_the_stream_names_its_column_alone",
        "delta/test_partitions.py::test_a_table_is_not_created_when_it_would_be_partitioned_by_moments",
        "unit/test_cli_check.py::test_a_table_is_not_partitioned_by_a_moment",
    ),
    "time-04": (
        "stream/test_clocks.py::test_a_time_that_no_producer_gave_is_never_taken_for_the_events",
        "transform/test_rules.py::test_a_cob_date_is_measured_against_the_records_own_time_when_it_has_one",
    ),
    "time-05": (
        "stream/test_clocks.py::test_records_from_the_future_land_and_their_dead_letters_are_stamped_when_they_are_sent",
        "unit/resilience/test_classification.py::test_verdict_follows_when_librdkafka_gives_a_code",
    ),
    "time-06": (
        # No clock column is added, none can be made, and readers go by version or checkpoint.
        "transform/test_rules.py::test_the_row_has_every_added_column_when_a_record_is_accepted",
        "transform/test_rules.py::test_an_expression_is_refused_when_it_is_not_a_function_of_the_record",
        "reports/test_landed.py::test_a_second_run_reads_the_versions_of_the_first_when_the_table_grew",
        "dead_letters/test_as_source.py::test_a_reader_of_the_table_sees_each_letter_once_when_statuses_change_and_old_letters_are_forgotten",
        "stream/test_clocks.py::test_a_row_that_is_stamped_before_a_readers_mark_is_delivered_when_it_is_committed_after_it",
    ),
    "schema-01": (
        SAMPLED,
        "unit/test_column_names.py::test_a_name_becomes_a_column_that_needs_no_quoting_at_any_depth",
        "unit/test_column_names.py::test_two_names_that_end_as_one_column_are_refused",
    ),
    "schema-02": (
        SAMPLED,
        "delta/test_session.py::test_a_value_is_stored_by_the_rules_of_ansi",
        "stream/test_modes.py::test_a_table_holds_the_newest_version_of_each_entity_when_records_are_changes",
    ),
    "schema-03": (
        SAMPLED,
        "stream/test_options.py::test_a_new_column_is_added_only_when_schema_evolution_allows_it",
    ),
    "schema-04": (
        SAMPLED,
        "stream/test_options.py::test_a_column_has_its_declared_type_when_the_first_batch_holds_only_nulls",
    ),
    "schema-05": (SAMPLED,),
    "schema-06": (
        SAMPLED,
        "transform/test_rules.py::test_unknown_fields_are_counted_or_rejected_when_they_come",
        "stream/test_options.py::test_a_new_column_is_added_only_when_schema_evolution_allows_it",
        "faults/test_faults.py::test_every_record_is_accounted_for_and_none_is_there_twice_when_there_was",
    ),
    "schema-07": (
        SAMPLED,
        "transform/test_rules.py::test_only_its_record_fails_when_an_expression_raises",
    ),
    "merge-01": (
        "delta/test_merge.py::test_the_last_version_wins_when_a_batch_has_many_of_one_entity",
        "delta/test_merge.py::test_the_order_column_decides_before_the_offset_when_there_is_one",
    ),
    "merge-02": ("delta/test_merge.py::test_the_last_version_wins_when_a_batch_has_many_of_one_entity",),
    "merge-03": (
        "transform/test_rules.py::test_an_expression_is_refused_when_it_is_not_a_function_of_the_record",
        "dead_letters/test_replay.py::test_a_record_is_refused_to_be_mended_by_chance",
        "stream/test_survival.py::test_counts_and_dead_letters_are_whole_when_a_task_fails",
        "stream/test_modes.py::test_a_content_lands_once_and_every_record_is_counted_when_it_comes_again",
    ),
    "merge-04": (
        "stream/test_modes.py::test_rows_are_inserted_by_coordinates_when_the_table_has_another_writer",
        "delta/test_merge.py::test_the_session_carries_no_transaction_when_a_merge_is_over",
    ),
    "merge-05": (
        "delta/test_merge.py::test_nothing_is_written_when_the_seq_is_taken",
        "delta/test_merge.py::test_the_session_carries_no_transaction_when_a_merge_is_over",
        "stream/test_options.py::test_every_record_lands_raw_beside_the_decoded_ones_when_the_stream_has_both_tables",
    ),
    "checkpoint-01": (
        "stream/test_main_job.py::test_the_stream_resumes_from_the_marks_when_the_checkpoint_is_gone",
        "stream/test_survival.py::test_no_dead_letter_is_lost_when_the_writer_dies_after_the_append",
        "delta/test_merge.py::test_nothing_is_written_when_the_seq_is_taken",
    ),
    "checkpoint-02": (
        "stream/test_survival.py::test_missing_records_land_again_once_when_the_table_was_restored",
        "stream/test_survival.py::test_missing_records_land_again_when_the_table_is_restored_while_the_stream_runs",
    ),
    "checkpoint-03": (
        "stream/test_survival.py::test_a_batch_has_the_bounds_it_had_when_its_commit_is_gone_from_the_checkpoint",
        "faults/test_faults.py::test_every_record_is_accounted_for_and_none_is_there_twice_when_there_was",
        "stream/test_processes.py::test_nothing_is_lost_or_doubled_when_the_writer_is_killed_at_every_step_of_a_batch",
    ),
    "checkpoint-04": (
        "stream/test_main_job.py::test_a_group_reset_is_ignored_with_a_warning_when_the_table_has_marks",
    ),
    "checkpoint-05": ("stream/test_clocks.py::test_a_table_that_forgets_its_transactions_is_refused",),
    "kafka-01": (
        "stream/test_survival.py::test_all_records_of_a_topic_made_again_land_when_the_stream_was_stopped",
        "stream/test_survival.py::test_the_stream_stops_when_its_topic_is_made_again_under_it_and_the_next_start_lands_all",
        "listener/test_topics.py::test_all_records_of_the_successor_are_handed_over_when_a_topic_is_made_again_under_a_batch",
        "unit/test_settled_ends.py::test_a_short_dip_of_the_end_is_waited_out",
        "unit/test_settled_ends.py::test_a_listener_waits_out_a_short_dip_of_the_end",
    ),
    "kafka-02": (
        "stream/test_survival.py::test_all_records_of_a_topic_made_again_land_when_the_stream_was_stopped",
        "stream/test_identity.py::test_no_record_lands_twice_when_the_topic_is_made_again_after_the_batch_looked_at_it",
        "stream/test_modes.py::test_rows_are_inserted_by_coordinates_when_the_table_has_another_writer",
        "stream/test_marks_by_hand.py::test_what_is_read_again_lands_once_and_what_is_skipped_is_on_record_when_marks_are_moved",
    ),
    "kafka-03": (
        "stream/test_transactions.py::test_records_are_counted_and_no_loss_is_seen_when_transactions_leave_holes",
        "listener/test_topics.py::test_aborted_records_are_left_out_and_the_lag_is_0_when_producers_use_transactions",
    ),
    "kafka-04": (
        "stream/test_survival.py::test_the_stream_says_which_records_are_gone_when_retention_passed_the_marks",
        "unit/test_restarts.py::test_a_stream_stops_at_once_when_a_person_must_act",
        "stream/test_telemetry.py::test_every_metric_moves_as_it_should_in_a_run_with_faults",
        "listener/test_rebalance.py::test_a_position_below_the_start_is_noticed_when_retention_passed_it",
    ),
    "kafka-05": (
        "listener/test_rebalance.py::test_the_next_offset_is_committed_and_the_lag_is_0_when_all_is_done",
        "stream/test_main_job.py::test_kafka_offset_management",
    ),
    "kafka-06": (
        "listener/test_rebalance.py::test_a_gone_partition_is_left_alone_when_a_rebalance_comes_before_the_rewind",
    ),
    "kafka-07": (
        "listener/test_rebalance.py::test_one_result_is_stored_when_a_handler_runs_longer_than_the_poll_interval",
    ),
    "kafka-08": (
        "listener/test_rebalance.py::test_each_partition_is_committed_as_far_as_it_is_done_when_one_fails",
    ),
    "kafka-09": (
        "listener/test_rebalance.py::test_commits_cover_done_records_only_when_a_record_raises_at_shutdown",
    ),
    "kafka-10": (
        "listener/test_rebalance.py::test_the_newer_commit_stands_when_a_past_member_commits_again",
    ),
    "kafka-11": (
        "stream/test_options.py::test_every_record_lands_raw_beside_the_decoded_ones_when_the_stream_has_both_tables",
        "stream/test_options.py::test_a_dead_letter_keeps_key_partition_and_headers_in_order_when_it_is_published",
        "listener/test_delivery.py::test_a_record_is_dead_lettered_when_it_fails_max_attempts_times",
    ),
    "dlq-01": (
        "dead_letters/test_foreign.py::test_all_bytes_are_in_the_table_and_a_pointer_on_the_topic_when_a_letter_does_not_fit",
        "listener/test_dead_letters.py::test_a_pointer_is_written_when_the_value_does_not_fit_the_dlq",
    ),
    "dlq-02": (
        "stream/test_options.py::test_a_dead_letter_keeps_key_partition_and_headers_in_order_when_it_is_published",
        "stream/test_options.py::test_every_record_lands_raw_beside_the_decoded_ones_when_the_stream_has_both_tables",
        "listener/test_dead_letters.py::test_a_null_value_keeps_its_key_when_it_is_dead_lettered",
    ),
    "dlq-03": (
        "dead_letters/test_replay.py::test_each_letter_stands_once_with_its_record_when_it_was_published_twice",
        "dead_letters/test_foreign.py::test_a_person_sees_mends_and_replays_a_letter_by_the_command",
    ),
    "dlq-04": (
        "dead_letters/test_replay.py::test_each_letter_stands_once_with_its_record_when_it_was_published_twice",
        "stream/test_processes.py::test_nothing_is_lost_or_doubled_when_the_writer_is_killed_at_every_step_of_a_batch",
        "dead_letters/test_replay.py::test_a_mended_letter_lands_once_under_its_own_coordinates_when_it_is_replayed_twice",
    ),
    "dlq-05": (
        "stream/test_options.py::test_nothing_is_published_when_the_batch_has_more_bad_records_than_max_bad_share",
    ),
    "replay-01": (
        "dead_letters/test_many.py::test_a_record_that_always_fails_is_parked_with_one_counter_when_it_went_round_by_the_topic",
        "listener/test_dead_letters.py::test_coordinates_stay_and_the_error_changes_when_a_replayed_record_fails_again",
        "listener/test_dead_letters.py::test_nothing_is_committed_and_the_listener_stops_when_the_dlq_keeps_refusing",
        "unit/test_config_faults.py::test_a_value_that_cannot_be_says_why",
    ),
    "replay-02": (
        "dead_letters/test_as_source.py::test_a_reader_of_the_table_sees_each_letter_once_when_statuses_change_and_old_letters_are_forgotten",
    ),
    "ops-01": (
        "stream/test_marks_by_hand.py::test_upkeep_leaves_rows_and_marks_alone_while_a_stream_writes",
        "faults/test_faults.py::test_every_record_is_accounted_for_and_none_is_there_twice_when_there_was",
        "faults/test_classification_of_real_errors.py::test_error_is_judged_when_only_its_text_is_left",
        "unit/resilience/test_retry.py::test_commit_loop_retries_conflicts_fifteen_times_from_100_ms",
    ),
    "ops-02": (
        "stream/test_marks_by_hand.py::test_upkeep_leaves_rows_and_marks_alone_while_a_stream_writes",
        "unit/test_cli_upkeep.py::test_wrong_use_is_told_and_nothing_starts",
        "faults/test_faults.py::test_every_record_is_accounted_for_and_none_is_there_twice_when_there_was",
        "stream/test_lost_tables.py::test_a_batch_is_whole_when_others_vacuum_between_its_files_and_its_commit",
    ),
    "ops-03": (
        "stream/test_marks_by_hand.py::test_files_do_not_grow_without_limit_when_many_small_batches_are_kept_in_shape",
        "stream/test_telemetry.py::test_every_metric_moves_as_it_should_in_a_run_with_faults",
    ),
    "ops-04": (
        "stream/test_main_job.py::test_good_records_land_and_bad_ones_are_dead_letters_when_a_topic_holds_both",
        "unit/test_batch_ships.py::test_the_lag_of_a_report_is_what_lies_between_marks_and_ends",
        "listener/test_rebalance.py::test_a_position_beyond_the_end_is_noticed_when_the_topic_is_shorter",
        "stream/test_lost_tables.py::test_the_stream_says_so_when_its_marks_lie_beyond_the_end_of_the_topic",
    ),
}


@cache
def named_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_reported_case_is_there() -> None:
    assert list(CASES) == [f"{kind}-{n:02}" for kind, count in KINDS.items() for n in range(1, count + 1)]
    assert all(CASES.values())


@pytest.mark.parametrize("case", CASES)
def test_each_case_is_held_by_tests_that_exist(case: str) -> None:
    for named in CASES[case]:
        file, _, test = named.partition("::")
        assert test.startswith("test_")
        assert test in named_in(file), named


def test_a_case_is_held_by_its_samples_exactly_when_it_has_some() -> None:
    sampled = {json.loads(line)["case"] for line in SAMPLES.read_text(encoding="utf-8").splitlines()}
    assert sampled == {case for case, tests in CASES.items() if SAMPLED in tests}
