"""Where `tidemark serve` listens, and what the pages make of numbers and bytes."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from pydantic import SecretStr

from tidemark.cli.serve import _where
from tidemark.config.sections import MetricsSettings
from tidemark.config.stream import Stream
from tidemark.console.charts import lag_chart, throughput_chart
from tidemark.console.payloads import payload_text, secret_names, text_of
from tidemark.console.rendering import TEMPLATES, age, count, moment
from tidemark.contract.errors import UsageError
from tidemark.dead_letters.listing import Place
from tidemark.dead_letters.selection import PayloadEdit
from tidemark.ingest.monitoring.watch import Point


def test_the_options_go_over_the_configuration() -> None:
    at = _where(MetricsSettings(port=9000), None, 0)
    assert (at.host, at.port) == ("127.0.0.1", 0)
    open_to_all = _where(MetricsSettings(token=SecretStr("t")), "0.0.0.0", None)
    assert (open_to_all.host, open_to_all.port, open_to_all.is_loopback) == ("0.0.0.0", 8080, False)


def test_an_address_that_others_reach_is_refused_without_a_token() -> None:
    for host in ("0.0.0.0", "127.example.org"):
        with pytest.raises(UsageError, match="can be reached from outside") as raised:
            _where(MetricsSettings(), host, None)
        assert "metrics.token" in str(raised.value.hint)


def test_charts_show_lag_and_the_rate_between_two_looks() -> None:
    points = [Point(0, 100, 0), Point(10, 50, 50), Point(20, 0, 100), Point(30, 60, 40)]
    lag, rate = lag_chart(points), throughput_chart(points)
    assert (lag.newest, lag.highest, lag.minutes) == (60, 100, 0.5)
    assert (rate.newest, rate.highest) == (0, 5), "a rewind is no negative rate"
    assert len(lag.line.split()) == 4
    assert lag_chart([]).line == ""
    assert throughput_chart(points[:1]).newest == 0


@pytest.mark.parametrize(
    ("value", "text", "exact"),
    [
        (b'{"id": 1}', '{"id": 1}', True),
        ("zw\u00f6lf\n\t".encode(), "zw\u00f6lf\n\t", True),
        (None, "", False),
        (b"\x00\x01", "\x00\x01", False),
        (b"\xff\x10", "ff 10", False),
        (b"a\r\nb", "a\r\nb", False),
        (b"x" * 20_000, "x" * 16_384, False),
    ],
)
def test_a_payload_can_be_edited_only_where_its_text_is_exactly_its_bytes(
    value: bytes | None, text: str, exact: bool
) -> None:
    assert text_of(value) == (text, exact)


SECRETS = secret_names(
    Stream.model_validate(
        {
            "kafka-topic": "t",
            "schema": {"ddl": "id STRING"},
            "fields": {"id": {"required": True}, "ssn": {"secret": True}, "card.number": {"secret": True}},
        }
    )
)


def test_what_a_field_marked_secret_holds_is_masked_wherever_it_lies() -> None:
    payload = {
        "id": 7,
        "SSN": [1, {"a": "078-05-1120"}],
        "card": {"number": "4111"},
        "more": [{"ssn": "078"}],
    }
    text, exact = payload_text(json.dumps(payload).encode(), SECRETS)
    assert not exact, "what is masked cannot be sent back"
    mask = "********"
    assert json.loads(text) == {"id": 7, "SSN": mask, "card": {"number": mask}, "more": [{"ssn": mask}]}
    assert payload_text(b'{"ssn": "078"}', frozenset()) == ('{"ssn": "078"}', True)


@pytest.mark.parametrize(
    "value", [b'{"ssn": "078-05-1120"', b"7,078-05-1120", b"\xff078-05-1120", b"[" * 9999 + b"078"]
)
def test_a_payload_that_holds_a_secret_field_and_cannot_be_read_is_not_shown(value: bytes) -> None:
    text, exact = payload_text(value, SECRETS)
    assert ("078" in text, "30 37 38" in text, exact) == (False, False, False)


def test_an_edit_is_a_literal_whatever_is_in_it() -> None:
    assert PayloadEdit.to('it\'s a \\ "test"').expression == "'it\\'s a \\\\ \"test\"'"


def test_a_place_in_the_dead_letter_list_is_read_from_the_address_or_refused() -> None:
    for place in (Place(1_720_000_000_000_000, "t:0:5~x"), Place(None, "z"), Place(-5, "q")):
        assert Place.of(str(place)) == place
    for text in ("", "~", "x~y", "9" * 40 + "~a", "' OR 1=1~--"):
        assert Place.of(text) is None, text


def test_the_first_page_says_what_is_rejected_and_shows_hostile_codes_as_text() -> None:
    chart = lag_chart([Point(0, 5, 1), Point(1, 3, 2)])
    shown = {
        **{"name": "orders", "topic": "t", "table": "x", "problem": None, "state": "FRESH", "lag": 3},
        **{"lag_seconds": 2.0, "commit_age": 3.0, "partitions": (), "dead_letters": 4},
        **{
            "open_codes": [("TYPE_MISMATCH", 3), ("<script>", 1)],
            "lag_chart": chart,
            "throughput_chart": chart,
        },
    }
    page = TEMPLATES.get_template("overview_live.html").render(
        home="./",
        streams=[shown],
        health={"status": "UP", "findings": {}},
        breakers=[],
        problem=None,
        looked_at=None,
    )
    assert ">TYPE_MISMATCH</a> 3, " in page
    assert "code=TYPE_MISMATCH&amp;status=new" in page
    assert "<script>" not in page


def test_numbers_and_ages_read_well() -> None:
    assert [count(v) for v in (0, 1234, 12.34, 40.0, 123456.7)] == ["0", "1,234", "12.3", "40", "123,457"]
    assert [age(v) for v in (None, 5, 600, 7200, 200_000)] == ["never", "5 s", "10 min", "2 h", "2 d"]
    assert moment(datetime(2026, 1, 2, 3, 4, 5)) == "2026-01-02 03:04:05"
    assert moment(None) == "–"
