"""A log that cannot be read is named, and an error of the JVM is told by what it says."""

from __future__ import annotations

import pytest

from tidemark.contract.errors import Fenced, LedgerError, summary_of_error
from tidemark.contract.failures import Action
from tidemark.resilience.classification import Classifier
from tidemark.sink.damaged_log import log_readable

TRACE = "\n".join(
    (
        "An error occurred while calling o81.sql.",
        ": org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file"
        " s3a://lake/events/_delta_log/00000000000000000003.json.  SQLSTATE: KD001",
        "\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(Unknown.scala)",
        "Caused by: org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION]"
        " Malformed records are detected in record parsing: [null,null].",
    )
)


def test_a_file_of_the_log_that_cannot_be_read_is_named_and_stops_the_stream() -> None:
    with pytest.raises(LedgerError) as raised, log_readable():
        raise RuntimeError(TRACE)
    assert "cannot be read: s3a://lake/events/_delta_log/00000000000000000003.json" in raised.value.message
    assert "moved away" in str(raised.value.hint)
    assert Classifier().classify(raised.value).action is Action.STOP


@pytest.mark.parametrize("text", ["away", TRACE.replace("_delta_log", "data")])
def test_other_errors_of_a_read_pass_by(text: str) -> None:
    with pytest.raises(RuntimeError), log_readable():
        raise RuntimeError(text)


def test_an_error_is_reported_in_one_line_by_what_it_says() -> None:
    first, cause = summary_of_error(RuntimeError(TRACE)).split("; caused by ")
    assert first.startswith("org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT]")
    assert cause.startswith("org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING")
    assert summary_of_error(Fenced("another one\nwrote", "stop it")) == "another one\nwrote"
    assert summary_of_error(RuntimeError("\n")) == "RuntimeError"
