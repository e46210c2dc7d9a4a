"""Which test holds which line of the two documents behind the listener and the reports, and of the troubles
that users of Kafka consumers report.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LISTENER = {
    "committed offsets only grow": "test_the_newer_commit_stands_when_a_past_member_commits_again",
    "no message is lost": "test_no_record_is_lost_when_a_member_joins_and_leaves",
    "processed for sure before it counts": "test_nothing_is_committed_before_the_execution_is_completed",
    "autocommit is off": "test_auto_commit_is_refused_when_it_is_configured",
    "one concurrent execution": "test_one_execution_runs_at_a_time_when_more_records_wait",
    "batches by size": "test_a_batch_is_handed_over_when_its_size_is_reached",
    "batches by time": "test_a_batch_is_handed_over_when_its_time_is_up",
    "the final status after completion": "test_the_final_state_is_waited_for_when_a_run_goes_through_others",
    "several consumers in several processes": "test_six_workers_share_the_six_partitions",
    "success commits": "test_offsets_are_committed_when_the_execution_succeeds",
    "only of partitions still assigned": "test_a_late_result_changes_nothing_when_its_partition_went_away",
    "failure rewinds to the last success": (
        "test_partitions_are_rewound_to_the_last_success_when_an_execution_fails"
    ),
    "failed records are submitted again": "test_only_failed_records_come_again_when_a_batch_succeeds_in_part",
    "exit condition: dead letter": "test_a_record_is_dead_lettered_when_it_fails_max_attempts_times",
    "exit condition: stop": "test_the_listener_stops_with_exit_code_1_when_the_policy_says_so",
    "no endless loop": "test_the_listener_stops_before_it_floods_the_dlq_when_every_record_fails",
}
REPORTS = {
    "topic, group, 6 partitions": (
        "test_topic_group_and_partitions_are_those_of_the_document_when_nothing_is_configured"
    ),
    "key and payload on the wire": "test_the_payload_is_the_documents_when_a_request_is_published",
    "the document's own example": "test_the_documents_example_is_read_when_it_comes_from_another_producer",
    "1 stored, then published": "test_submitted_is_stored_before_the_event_is_published",
    "2 routed by key": "test_a_request_lies_where_javas_producer_would_put_it",
    "3 correlation id": "test_the_correlation_id_is_the_same_from_submission_to_archive",
    "3 COMPLETED is short-circuited": "test_completed_is_short_circuited_when_the_event_comes_again",
    "3 IN_PROGRESS is short-circuited": (
        "test_a_live_in_progress_is_short_circuited_and_republished_when_its_owner_dies"
    ),
    "4 COMPLETED with archiveRef": "test_a_request_is_completed_with_an_archive_ref_when_it_was_submitted",
    "5 retries, then the DLQ": (
        "test_the_event_is_dead_lettered_and_the_row_failed_when_retries_are_exhausted"
    ),
    "backoff 1, 2, 4 s": "test_a_transient_failure_is_retried_after_1_2_and_4_seconds",
    "side effects before the commit": "test_a_request_is_ended_once_when_its_worker_is_killed_at_any_point",
    "per-key order": "test_every_request_ends_once_when_workers_are_killed_and_the_archive_fails",
    "replay is safe": "test_a_request_runs_again_when_its_dead_letter_is_published_again",
    "partitions added later": "test_keys_move_when_partitions_are_added",
    "circuit breaker on the archive": "test_no_attempt_is_spent_while_the_breaker_is_open",
    "the archive heals": "test_a_report_is_archived_when_the_archive_heals_within_the_retries",
    "poison message": "test_a_poison_message_goes_to_the_dlq_when_its_payload_is_bad",
    "lag per partition is monitored": "test_a_worker_tells_what_it_does_when_it_is_scraped",
}
CONSUMERS = {
    "a topic made again": (
        "test_all_records_of_the_successor_are_handed_over_when_a_topic_is_made_again_under_a_batch"
    ),
    "a shorter topic": "test_a_position_beyond_the_end_is_noticed_when_the_topic_is_shorter",
    "transactions": "test_aborted_records_are_left_out_and_the_lag_is_0_when_producers_use_transactions",
    "retention": "test_a_position_below_the_start_is_noticed_when_retention_passed_it",
    "a lag of 1": "test_the_next_offset_is_committed_and_the_lag_is_0_when_all_is_done",
    "seek after a rebalance": "test_a_gone_partition_is_left_alone_when_a_rebalance_comes_before_the_rewind",
    "a slow handler": "test_one_result_is_stored_when_a_handler_runs_longer_than_the_poll_interval",
    "partitions on their own": "test_each_partition_is_committed_as_far_as_it_is_done_when_one_fails",
    "noted before it is done": "test_commits_cover_done_records_only_when_a_record_raises_at_shutdown",
    "two committers": "test_the_newer_commit_stands_when_a_past_member_commits_again",
    "headers": "test_a_record_is_dead_lettered_when_it_fails_max_attempts_times",
    "a null value": "test_a_null_value_keeps_its_key_when_it_is_dead_lettered",
    "a value too large for the DLQ": "test_a_pointer_is_written_when_the_value_does_not_fit_the_dlq",
    "an attempt counter": "test_coordinates_stay_and_the_error_changes_when_a_replayed_record_fails_again",
}


@pytest.fixture(scope="module")
def source() -> str:
    files = [f for ring in ("listener", "reports") for f in (TESTS / ring).glob("test_*.py")]
    return "\n".join(f.read_text(encoding="utf-8") for f in files)


@pytest.mark.parametrize(("line", "test"), [*LISTENER.items(), *REPORTS.items(), *CONSUMERS.items()])
def test_each_line_of_the_documents_is_held_by_a_test(source: str, line: str, test: str) -> None:
    assert f"def {test}(" in source, line
