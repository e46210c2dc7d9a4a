from __future__ import annotations

import io
import json
import logging
import re
import threading

import pytest
import structlog
from pydantic import SecretStr

from tidemark.monitoring.logging import bind, configure_logging


def lines_of(out: io.StringIO) -> list[str]:
    return out.getvalue().splitlines()


def test_a_console_line_reads_as_in_the_source_document_when_a_record_is_traced() -> None:
    out = io.StringIO()
    configure_logging("console", "INFO", stream=out)
    with bind(correlation_id="c123-456"):
        thread = threading.Thread(
            name="kafka-consumer-1", target=lambda: _log_in_thread("c123-456", "user.events.v1")
        )
        thread.start()
        thread.join()
    pattern = (
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \[kafka-consumer-1\] INFO \[c123-456\] "
        r"tidemark\.ingest\.batch\.handler - Processing message topic=user\.events\.v1"
    )
    assert re.fullmatch(pattern, lines_of(out)[0])


def _log_in_thread(correlation_id: str, topic: str) -> None:
    with bind(correlation_id=correlation_id):
        structlog.get_logger("tidemark.ingest.batch.handler").info("Processing message", topic=topic)


def test_a_line_has_a_dash_for_the_correlation_id_when_none_is_bound() -> None:
    out = io.StringIO()
    configure_logging("console", "INFO", stream=out)
    structlog.get_logger("tidemark.x").warning("breaker opened")
    assert " WARN [-] tidemark.x - breaker opened" in lines_of(out)[0]


def test_a_json_line_carries_what_is_bound_and_drops_it_afterwards() -> None:
    out = io.StringIO()
    configure_logging("json", "INFO", stream=out)
    log = structlog.get_logger("tidemark.ingest")
    with bind(stream="orders", batch=7, correlation_id="c-1"):
        log.info("batch landed", accepted=3)
    log.info("idle")
    first, second = (json.loads(line) for line in lines_of(out))
    assert (first["stream"], first["batch"], first["correlation_id"], first["accepted"]) == (
        "orders",
        7,
        "c-1",
        3,
    )
    assert (first["level"], first["logger"], first["event"]) == ("INFO", "tidemark.ingest", "batch landed")
    assert first["thread"] == threading.current_thread().name
    assert "stream" not in second
    assert second["timestamp"].endswith("Z")


def test_lines_below_the_level_are_left_out() -> None:
    out = io.StringIO()
    configure_logging("console", "WARNING", stream=out)
    log = structlog.get_logger("tidemark.x")
    log.debug("one record")
    log.info("batch totals")
    log.warning("retrying")
    log.error("stopped")
    assert [line.split(" - ")[1] for line in lines_of(out)] == ["retrying", "stopped"]


@pytest.mark.parametrize(
    "fields",
    [
        {"password": "hunter2"},
        {"sasl_jaas_config": 'ScramLoginModule required username="u" password="hunter2";'},
        {"Authorization": "Bearer hunter2hunter2"},
        {"aws_secret_access_key": "hunter2"},
        {"options": {"kafka": {"sasl.password": "hunter2"}}},
        {"credentials": {"user": "u", "word": "hunter2"}},
        {"payload": '{"user_id": "hunter2"}'},
        {"value": b"hunter2"},
        {"records": [{"value": b"hunter2"}]},
        {"url": "postgresql://app:hunter2@db/reports"},
        {"iban": "hunter2"},
        {"anything": SecretStr("hunter2")},
        {"raw": b"hunter2"},
    ],
    ids=lambda f: next(iter(f)),
)
@pytest.mark.parametrize("format", ["console", "json"])
def test_a_secret_or_a_payload_is_never_shown(format: str, fields: dict[str, object]) -> None:
    out = io.StringIO()
    configure_logging("json" if format == "json" else "console", "DEBUG", secret_fields=["iban"], stream=out)
    structlog.get_logger("tidemark.x").info("connecting", **fields)
    assert "connecting" in out.getvalue()
    assert "hunter2" not in out.getvalue()


def test_a_secret_inside_a_message_or_a_traceback_is_masked() -> None:
    out = io.StringIO()
    configure_logging("console", "INFO", stream=out)
    log = structlog.get_logger("tidemark.x")
    try:
        raise ValueError("cannot reach http://app:hunter2@store/ with password=hunter2")
    except ValueError:
        log.exception("failed at http://app:hunter2@store/")
    text = out.getvalue()
    assert "ValueError: cannot reach http://app:********@store/" in text
    assert "hunter2" not in text


def test_a_value_with_line_breaks_stays_in_one_line() -> None:
    out = io.StringIO()
    configure_logging("console", "INFO", stream=out)
    structlog.get_logger("tidemark.x").info("odd", topic="a\nforged line")
    assert len(lines_of(out)) == 1


def test_a_record_cannot_act_on_the_terminal_that_shows_a_line() -> None:
    out = io.StringIO()
    configure_logging("console", "DEBUG", stream=out)
    hostile = "a\x1b[2J\x9b31m\x07\u202etxt.exe\u2028b"
    try:
        raise ValueError(f"cannot read {hostile}")
    except ValueError:
        structlog.get_logger("tidemark.x").error(hostile, code=hostile, correlation_id=hostile, exc_info=True)
    text = out.getvalue()
    assert not any(c in text for c in "\x1b\x9b\x07\u202e\u2028")
    assert text.count("a\\x1b[2J\\x9b31m\\x07\\u202etxt.exe\\u2028b") >= 4


def test_warnings_of_other_libraries_look_alike_and_are_redacted() -> None:
    out = io.StringIO()
    logging.getLogger().handlers[:] = []
    configure_logging("json", "DEBUG", stream=out)
    other = logging.getLogger("some.library")
    other.warning("retry %s with password=hunter2", 2)
    other.info("chatter")
    assert logging.getLogger().level == logging.WARNING
    (line,) = lines_of(out)
    assert json.loads(line)["event"].startswith("retry 2")
    assert json.loads(line)["logger"] == "some.library"
    assert "hunter2" not in line


def test_the_root_logger_is_left_alone_when_the_application_set_it_up() -> None:
    theirs = logging.StreamHandler(io.StringIO())
    logging.getLogger().handlers[:] = [theirs]
    configure_logging("console", "INFO", stream=io.StringIO())
    assert logging.getLogger().handlers == [theirs]
    structlog.get_logger("tidemark.x").error("ours")
    assert theirs.stream.getvalue() == ""


def test_lines_come_once_when_logging_is_set_up_again() -> None:
    first, second = io.StringIO(), io.StringIO()
    logging.getLogger().handlers[:] = []
    configure_logging("console", "INFO", stream=first)
    configure_logging("console", "INFO", stream=second)
    structlog.get_logger("tidemark.x").info("once")
    assert first.getvalue() == ""
    assert len(lines_of(second)) == 1


def test_lines_go_to_standard_error_when_no_stream_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("console", "INFO")
    structlog.get_logger("tidemark.monitoringr").info("hello")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "tidemark.monitoringr - hello" in captured.err
