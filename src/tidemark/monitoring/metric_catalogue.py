"""Every metric that Tidemark exports: its name, kind, labels and meaning. docs/metrics.md is this table.

Labels are bounded: streams, topics and tables by the configuration, partitions by the topic, the rest by
closed lists. Units are in the names, as Prometheus recommends.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "tidemark_"


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Metric:
    """`name` as exported, with a counter's `_total`. `source`: its name in the source documents."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    source: str = ""
    buckets: tuple[float, ...] = ()


_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_C, _G, _H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_S = ("stream",)

CATALOGUE: tuple[Metric, ...] = (
    Metric("tidemark_build_info", _G, ("application", "version"), "Always 1; its labels say what runs."),
    Metric("tidemark_stream_info", _G, ("stream", "topic", "table"), "Always 1; a stream's topic and table."),
    Metric("tidemark_stream_running", _G, _S, "1 while the stream's query runs, 0 when it has ended."),
    Metric("tidemark_stream_restarts_total", _C, _S, "Automatic starts of the query after the first."),
    Metric("tidemark_records_read_total", _C, _S, "Records read from the topic, each batch once."),
    Metric(
        "tidemark_records_processed_total",
        _C,
        ("stream", "route"),
        "Records by route: accepted, rejected, skipped, duplicate.",
        "Messages processed successfully",
    ),
    Metric(
        "tidemark_failures_total",
        _C,
        ("stream", "scope", "retriable"),
        "Failed attempts by scope (RECORD, DEPENDENCY, PROCESS) and whether they may be retried.",
        "Messages failed (retriable vs non-retriable); error rates",
    ),
    Metric(
        "tidemark_dead_letters_total",
        _C,
        ("stream", "code"),
        "Records sent to the dead letter queue, by failure code.",
        "Messages sent to DLQ; DLQ volume",
    ),
    Metric(
        "tidemark_batch_latency_seconds",
        _H,
        _S,
        "From the start of a batch's read to its commit, dead letters acknowledged.",
        "Processing latency: time from consume to acknowledge",
        _SECONDS,
    ),
    Metric(
        "tidemark_retries_total",
        _C,
        ("stream", "topic"),
        "Attempts that were repeated after a failure.",
        "Retry attempts per topic",
    ),
    Metric(
        "tidemark_breaker_state",
        _G,
        ("breaker", "state"),
        "1 for the state the breaker is in, 0 for the others.",
        "Circuit breaker states",
    ),
    Metric(
        "tidemark_breaker_changes_total",
        _C,
        ("breaker", "state"),
        "Changes of the breaker, by the state it went to.",
        "Circuit breaker state changes",
    ),
    Metric(
        "tidemark_duplicates_total",
        _C,
        _S,
        "Records that were left out because they had landed already.",
        "Duplicate messages detected",
    ),
    Metric(
        "tidemark_fingerprint_checks_total",
        _C,
        _S,
        "Records whose content was looked up (mode fingerprint).",
        "Idempotency cache hit rate",
    ),
    Metric(
        "tidemark_fingerprint_hits_total",
        _C,
        _S,
        "Of these, the ones whose content was seen before. Hits by checks is the hit rate.",
        "Idempotency cache hit rate",
    ),
    Metric(
        "tidemark_lag_records",
        _G,
        ("stream", "partition"),
        "Offsets between the marks and the end of the partition; an upper bound, as offsets have holes.",
        "Kafka consumer lag",
    ),
    Metric(
        "tidemark_lag_seconds",
        _G,
        ("stream", "partition"),
        "Age of the oldest record that is not landed yet; 0 where there is none.",
        "Kafka consumer lag",
    ),
    Metric(
        "tidemark_storage_write_seconds",
        _H,
        _S,
        "One append to the table, its commit included, without retries.",
        "S3 write latency",
        _SECONDS,
    ),
    Metric(
        "tidemark_delta_commits_total",
        _C,
        ("stream", "outcome"),
        "Attempts to commit, by outcome: committed, failed.",
        "Delta Lake transaction success rate",
    ),
    Metric("tidemark_last_commit_age_seconds", _G, _S, "Seconds since the stream's newest commit."),
    Metric("tidemark_table_version", _G, _S, "Version of the table's newest ledger commit."),
    Metric(
        "tidemark_reconciliation_difference_records",
        _G,
        _S,
        "read - accepted - rejected - skipped - duplicate of the last batch. Must be 0.",
    ),
    Metric(
        "tidemark_dead_letter_topic_records", _G, _S, "Offsets in the dead letter topic.", "DLQ topic sizes"
    ),
    Metric("tidemark_dead_letter_topic_age_seconds", _G, _S, "Age of the oldest record there; 0 where none."),
    Metric(
        "tidemark_dead_letters_open",
        _G,
        _S,
        "Dead letters with status `new` in the DLQ table (tidemark serve).",
    ),
    Metric("tidemark_lost_offsets_total", _C, _S, "Offsets that retention took before they were read."),
    Metric(
        "tidemark_conflicts_total",
        _C,
        _S,
        "Of the duplicates, those whose row in the table has other content. Always an alarm.",
    ),
    Metric("tidemark_unknown_fields_total", _C, _S, "Fields in payloads that the schema does not know."),
    Metric(
        "tidemark_write_throughput_records_per_second",
        _G,
        _S,
        "Records of the last batch by the seconds it took.",
        "Delta Lake write metrics: throughput",
    ),
    Metric("tidemark_files_written_total", _C, _S, "Data files added to the table."),
    Metric("tidemark_bytes_written_total", _C, _S, "Bytes of those files."),
    Metric(
        "tidemark_listener_records_total",
        _C,
        ("group", "outcome"),
        "Records of a listener or report worker by outcome: done, failed (an attempt), dead-lettered.",
    ),
    Metric(
        "tidemark_listener_rewinds_total",
        _C,
        ("group",),
        "Times a partition went back to a record that has to come again: retries and outages.",
    ),
    Metric(
        "tidemark_listener_execution_seconds",
        _H,
        ("group",),
        "From handing a batch over to its result; of a report worker, one request.",
        "",
        _SECONDS,
    ),
    Metric(
        "tidemark_listener_lag_records",
        _G,
        ("group", "topic", "partition"),
        "Offsets of an assigned partition that are not done yet, by what the last fetch saw of its end.",
        "Monitor lag per partition",
    ),
    Metric("tidemark_report_requests", _G, ("status",), "Report requests by status."),
    Metric("tidemark_telemetry_errors_total", _C, ("part",), "Failures of telemetry itself; nothing stops."),
)
