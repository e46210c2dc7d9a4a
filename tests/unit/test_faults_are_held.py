"""Which test holds which fault: of `reliability-guarantees.md`, of `fault-tolerance.md`, and of a bad day."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidemark.contract import errors

TESTS = Path(__file__).parents[1]
EVERY_STEP = "test_nothing_is_lost_or_doubled_when_the_writer_is_killed_at_every_step_of_a_batch"
TABLE_DRIVEN = "test_every_record_is_accounted_for_and_none_is_there_twice_when_there_was"
OF_THE_BROKER = "test_every_record_is_accounted_for_and_none_is_there_twice_when_the_broker_was"
S3_BRIEF = "test_every_record_lands_once_when_s3_fails_for_less_than_the_retries"
OUTAGE = "test_batches_become_replayable_dead_letters_and_land_by_themselves_when_the_table_was_away"
KEPT = "test_the_batch_is_kept_and_lands_when_nothing_can_be_written_or_the_stream_is_to_pause"

RELIABILITY = {
    "acknowledged only after success": (
        "test_scenario_1_transient_s3_outage_is_retried_and_acknowledged_only_once_the_rows_are_there"
    ),
    "what is retriable": "test_error_is_retried_when_the_source_document_calls_it_retriable",
    "what is not": "test_error_is_not_retried_when_the_source_document_calls_it_permanent",
    "HTTP statuses": "test_status_is_retried_when_an_http_client_reports_it",
    "backoff and jitter": "test_wait_doubles_within_its_band_when_attempts_fail",
    "cap of 30 s": "test_wait_never_exceeds_the_cap_however_often_it_fails",
    "three retries": "test_three_retries_are_four_attempts",
    "to the DLQ after that": OUTAGE,
    "duplicates at other offsets": (
        "test_a_content_lands_once_and_every_record_is_counted_when_it_comes_again"
    ),
    "across a restart": "test_nothing_lands_twice_when_the_stream_runs_again",
    "breaker: limited requests while half open": "test_one_probe_at_a_time_is_let_through",
    "breaker: thresholds": "test_thresholds_follow_the_configuration",
    "breaker: reset": "test_an_open_breaker_is_shown_and_closed_also_for_the_process_that_runs",
    "twelve fields of the envelope": (
        "test_the_envelope_holds_twelve_fields_and_is_read_back_when_it_is_the_format"
    ),
    "scenario 1": (
        "test_scenario_1_transient_s3_outage_is_retried_and_acknowledged_only_once_the_rows_are_there"
    ),
    "scenario 2": "test_scenario_2_invalid_message_schema_is_quarantined_and_the_pipeline_continues",
    "scenario 3": (
        "test_scenario_3_consumer_rebalance_keeps_exactly_once_when_a_writer_is_lost_and_another_takes_over"
    ),
    "scenario 4": "test_scenario_4_application_restart_loses_nothing_and_doubles_nothing",
}
FAULT_TOLERANCE = {
    "compute fails while consuming or writing": EVERY_STEP,
    "a task of it fails": "test_counts_and_dead_letters_are_whole_when_a_task_fails",
    "payload is no JSON, no Avro": "test_every_dead_letter_is_published_when_a_batch_is_full_of_bad_records",
    "the schema changed": "test_a_new_column_is_added_only_when_schema_evolution_allows_it",
    "writers race": "test_the_older_writer_is_fenced_when_another_one_committed_since_it_read_the_marks",
    "the commit conflicts: from 100 ms, 15 times": (
        "test_commit_loop_retries_conflicts_fifteen_times_from_100_ms"
    ),
    "other errors leave that loop": "test_commit_loop_lets_other_errors_go_at_once",
    "the lock is held": (
        "test_the_lock_is_given_up_with_a_clear_answer_when_another_process_is_frozen_in_its_commit"
    ),
    "Kafka fails": OF_THE_BROKER,
    "storage fails": S3_BRIEF,
    "slow answers": "test_a_silent_s3_is_given_up_within_minutes",
    "the schema registry": (
        "test_new_schema_ids_widen_the_plan_before_anything_commits_when_a_registry_has_them"
    ),
    "wrong application id": "test_the_start_is_refused_when_another_stream_wrote_the_table",
    "the group starts afresh": "test_a_group_reset_is_ignored_with_a_warning_when_the_table_has_marks",
    "rebalance": "test_no_record_is_lost_when_a_member_joins_and_leaves",
}
BAD_DAY = {
    "SIGKILL in the batch": EVERY_STEP,
    "SIGKILL in the DLQ stream": EVERY_STEP,
    "SIGKILL in the replay": (
        "test_each_letter_lands_once_and_is_resolved_once_its_row_is_there_when_the_replay_is_killed_at_every_step"
    ),
    "broker killed, restarted, slow": OF_THE_BROKER,
    "DLQ without replicas, with a failed disk, deleted": OF_THE_BROKER,
    "storage out for less than the retries": S3_BRIEF,
    "storage out for longer": "test_every_record_lands_once_when_s3_was_away_for_longer_than_the_retries",
    "403, no such bucket": "test_the_stream_stops_and_names_the_reason_when_s3_refuses_it",
    "commit answered with an error after it was written": S3_BRIEF,
    "on-exhausted: dead-letter": OUTAGE,
    "on-exhausted: pause; DLQ down too": KEPT,
    "the process ends in an outage": (
        "test_dead_lettered_records_land_when_the_process_ends_before_the_table_is_back"
    ),
    "the process ends after an outage, before the replay": (
        "test_dead_letters_of_an_outage_land_when_the_process_restarts_before_their_replay"
    ),
    "checkpoint: commit deleted or emptied, older copy": TABLE_DRIVEN,
    "checkpoint: cut off": "test_a_checkpoint_is_not_used_wherever_one_of_its_files_was_cut_off",
    "checkpoint: gone": "test_the_stream_resumes_from_the_marks_when_the_checkpoint_is_gone",
    "two writers": "test_one_of_two_writers_stops_and_nothing_doubles_when_both_run_on_one_stream",
    "two processes on s3a": (
        "test_one_of_two_processes_stops_fenced_and_each_record_lands_once_when_both_write_one_table_on_s3"
    ),
    "two drivers commit one version on s3a": (
        "test_a_version_that_another_driver_took_first_is_refused_when_the_store_is_ours"
    ),
    "OPTIMIZE, VACUUM, DELETE, MERGE, ALTER TABLE of others": TABLE_DRIVEN,
    "clock jumps": TABLE_DRIVEN,
    "clock jumps, fingerprints": "test_nothing_new_is_dropped_when_the_memory_is_of_another_time",
    "RESTORE": "test_missing_records_land_again_once_when_the_table_was_restored",
    "table emptied": "test_the_stream_stops_and_asks_when_the_table_was_emptied_or_replaced",
    "topic made again": "test_all_records_of_a_topic_made_again_land_when_the_stream_was_stopped",
    "retention": "test_the_stream_says_which_records_are_gone_when_retention_passed_the_marks",
    "a segment of the broker is damaged": (
        "test_a_record_that_the_broker_cannot_give_back_is_named_with_what_to_do"
    ),
    "a Kafka right is missing": "test_the_stream_stops_and_names_the_right_when_one_is_missing",
    "least rights of each command": (
        "test_each_command_does_its_work_when_the_user_has_exactly_its_documented_rights"
    ),
    "SIGTERM": "test_scenario_4_application_restart_loses_nothing_and_doubles_nothing",
    "a silent broker": "test_a_silent_broker_is_given_up_within_a_minute",
}


@pytest.fixture(scope="module")
def names() -> set[str]:
    files = TESTS.rglob("test_*.py")
    return {name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.M)}


@pytest.mark.parametrize("held", [RELIABILITY, FAULT_TOLERANCE, BAD_DAY], ids=["guarantees", "modes", "day"])
def test_each_fault_has_the_test_that_is_named_for_it(names: set[str], held: dict[str, str]) -> None:
    assert {fault: test for fault, test in held.items() if test not in names} == {}


def test_each_code_of_a_stop_leads_to_a_page_of_the_runbook() -> None:
    runbook = (TESTS.parent / "docs/runbook.md").read_text()
    kinds = (kind for kind in vars(errors).values() if isinstance(kind, type))
    codes = {kind.condition for kind in kinds if issubclass(kind, errors.TidemarkError)}
    rows = "\n".join(line for line in runbook.splitlines() if line.startswith("| `TIDEMARK_"))
    assert {code for code in codes - {"TIDEMARK"} if f"`{code}`" not in rows} == set()
    sections = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^## (.+)$", runbook, re.M)
    }
    assert set(re.findall(r"\(#([^)]+)\)", rows)) <= sections
