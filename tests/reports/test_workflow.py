"""`report-requests.md`, line by line, through a real broker and both kinds of database."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
import structlog
from confluent_kafka import Consumer, Producer
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import DataError, OperationalError

from tidemark.config.reports import Reports
from tidemark.contract.errors import BreakerOpen, NonRetriableError, RetriableError, UsageError
from tidemark.contract.failures import Scope
from tidemark.listener.delivery.judging import policy_of
from tidemark.reports.archive.guard import ArchiveRefused
from tidemark.reports.publisher import GENERATION, NotPublished
from tidemark.reports.requests.claims import Claim, Claims, Refused
from tidemark.reports.requests.request import ReportRequest, Status
from tidemark.reports.strategy import ReportContext
from tidemark.reports.sweeper import Sweeper
from tidemark.reports.worker import judge

if TYPE_CHECKING:
    from tests.reports.conftest import Echo, Workflow

Workflows = Callable[..., "Workflow"]
Echoes = Callable[..., "Echo"]


def events(flow: Workflow, count: int) -> list[object]:
    consumer = Consumer({**flow.connection, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.subscribe([flow.settings.topic])
    found: list[object] = []
    deadline = time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and not message.error():
            found.append(message)
    consumer.close()
    return found


@pytest.mark.guarantee("reports: topic, group, 6 partitions")
def test_topic_group_and_partitions_are_the_documents_when_nothing_is_configured() -> None:
    settings = Reports()
    assert (settings.topic, settings.dlq) == ("bim-report-requested", "bim-report-requested-dlq")
    assert (settings.group_id, settings.partitions) == ("bim-report-workers", 6)
    assert settings.as_listener().max_attempts == 4
    assert settings.as_listener().batch_size == 1
    assert (settings.retry.base, settings.retry.cap, settings.retry.jitter) == (1.0, 30.0, 0.25)


@pytest.mark.guarantee("reports: key and payload on the wire")
def test_the_payload_is_the_documents_when_a_request_is_published(workflow: Workflows) -> None:
    flow = workflow()
    request_id = flow.submit("PERFORMANCE", accountIds=["A1"], **{"from": "2024-01-01", "to": "2024-12-31"})
    (message,) = events(flow, 1)
    assert message.key() == request_id.encode()
    body = json.loads(message.value())
    assert list(body) == ["requestId", "reportType", "requestedBy", "parametersJson", "requestedAt"]
    assert body["requestId"] == request_id
    assert body["reportType"] == "PERFORMANCE"
    assert body["requestedBy"] == "analyst@ej.com"
    assert body["parametersJson"] == '{"accountIds":["A1"],"from":"2024-01-01","to":"2024-12-31"}'
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", body["requestedAt"])


@pytest.mark.guarantee("reports: the document's own example")
def test_the_documents_example_is_read_when_it_comes_from_another_producer() -> None:
    wire = b"""{
      "requestId": "7f6f13d7-...",
      "reportType": "PERFORMANCE",
      "requestedBy": "analyst@ej.com",
      "parametersJson": "{\\"accountIds\\":[\\"A1\\"],\\"from\\":\\"2024-01-01\\",\\"to\\":\\"2024-12-31\\"}",
      "requestedAt": "2024-01-01T12:00:01Z"
    }"""
    request = ReportRequest.from_wire(wire)
    assert request.parameters == {"accountIds": ["A1"], "from": "2024-01-01", "to": "2024-12-31"}
    assert json.loads(request.to_wire()) == json.loads(wire)


@pytest.mark.guarantee("reports: 1 stored, then published")
def test_submitted_is_stored_before_the_event_is_published(workflow: Workflows) -> None:
    flow = workflow()
    stored: list[Status] = []

    class Looking:
        def publish(self, row: object) -> None:
            stored.append(flow.store.get("r-1").status)

    flow.service._publisher = Looking()
    flow.service.submit("ECHO", requested_by="a", parameters={}, request_id="r-1")
    assert stored == [Status.SUBMITTED]


@pytest.mark.guarantee("reports: 4 COMPLETED with archiveRef")
def test_a_request_is_completed_with_an_archive_ref_when_it_was_submitted(workflow: Workflows) -> None:
    flow = workflow()
    flow.worker()
    request_id = flow.submit(accountIds=["A1"])
    row = flow.wait_for(request_id, Status.COMPLETED)
    archived = flow.archive.read(row.archive_ref)
    assert archived is not None
    assert archived.summary["summary"] == {"parameters": {"accountIds": ["A1"]}}
    assert archived.rows() == [{"name": "accountIds", "request": request_id}]
    flow.wait_until(lambda: flow.lag() == 0)


def test_no_request_is_lost_when_kafka_is_down_at_submission(workflow: Workflows) -> None:
    flow = workflow()
    publisher = flow.service._publisher

    class Down:
        def publish(self, row: object) -> None:
            raise NotPublished("no broker")

    flow.service._publisher = Down()
    request_id = flow.submit()
    assert flow.service.status(request_id).published_at is None
    flow.service._publisher = publisher
    flow.worker()
    flow.wait_for(request_id, Status.COMPLETED)


@pytest.mark.guarantee("reports: 3 COMPLETED is short-circuited")
def test_completed_is_short_circuited_when_the_event_comes_again(workflow: Workflows, echo: Echoes) -> None:
    flow = workflow()
    strategy = echo()
    flow.worker(strategy)
    request_id = flow.submit()
    done = flow.wait_for(request_id, Status.COMPLETED)
    flow.service._publisher.publish(done)
    flow.wait_until(lambda: flow.lag() == 0)
    assert strategy.made == [request_id]
    assert flow.service.status(request_id).attempts == 1


@pytest.mark.guarantee("reports: 3 IN_PROGRESS is short-circuited")
def test_a_live_in_progress_is_short_circuited_and_republished_when_its_owner_dies(
    workflow: Workflows, echo: Echoes
) -> None:
    flow = workflow(lease=1.5)
    request_id = flow.submit()
    dead = Claims(flow.store.engine, owner="another worker", lease=1.5)
    assert isinstance(dead.claim(request_id, replay=False), Claim)
    strategy = echo()
    flow.worker(strategy)
    # Its event is acknowledged while the owner seems alive …
    flow.wait_until(lambda: flow.lag() == 0, timeout=15)
    flow.wait_until(lambda: flow.service.status(request_id).status is Status.COMPLETED)
    # … so only a second event can have brought it here.
    assert strategy.made == [request_id]
    assert flow.service.status(request_id).crashes == 1
    assert len(events(flow, 2)) == 2


def test_a_request_is_published_again_when_it_is_given_back_after_its_event_ended(
    workflow: Workflows,
) -> None:
    flow = workflow()
    request_id = flow.submit()
    owner = Claims(flow.store.engine, owner="owner", lease=60)
    claim = owner.claim(request_id, replay=False)
    assert isinstance(claim, Claim)
    assert Claims(flow.store.engine, owner="other", lease=60).claim(request_id, replay=False) is Refused.BUSY
    assert owner.release(claim, error_class="E", error_message="m")
    row = flow.service.status(request_id)
    assert (row.status, row.published_at) == (Status.SUBMITTED, None)


def test_a_claim_that_was_taken_over_changes_nothing(workflow: Workflows) -> None:
    flow = workflow()
    request_id = flow.submit()
    slow = Claims(flow.store.engine, owner="slow", lease=0.05).claim(request_id, replay=False)
    time.sleep(0.2)
    fast = Claims(flow.store.engine, owner="fast", lease=60)
    taken = fast.claim(request_id, replay=False)
    assert isinstance(slow, Claim)
    assert isinstance(taken, Claim)
    stale = Claims(flow.store.engine, owner="slow", lease=60)
    assert not stale.complete(slow, "sha256-stale")
    assert not stale.release(slow, error_class="E", error_message="m")
    assert fast.complete(taken, "sha256-right")
    assert flow.service.status(request_id).archive_ref == "sha256-right"


def test_an_earlier_claim_of_the_same_worker_changes_nothing(workflow: Workflows) -> None:
    flow = workflow()
    request_id = flow.submit()
    claims = Claims(flow.store.engine, owner="one", lease=60)
    earlier, later = (claims.claim(request_id, replay=False) for _ in range(2))
    assert isinstance(earlier, Claim)
    assert isinstance(later, Claim)
    assert not claims.complete(earlier, "sha256-stale")
    assert not claims.renew(earlier)
    assert claims.complete(later, "sha256-right")


def test_nothing_is_completed_after_the_lease(workflow: Workflows) -> None:
    flow = workflow()
    request_id = flow.submit()
    claims = Claims(flow.store.engine, owner="slow", lease=0.05)
    claim = claims.claim(request_id, replay=False)
    assert isinstance(claim, Claim)
    time.sleep(0.2)
    assert not claims.complete(claim, "sha256-late")


def test_one_of_many_gets_the_claim_when_all_ask_at_once(workflow: Workflows) -> None:
    flow = workflow()
    request_id = flow.submit()
    claims = [Claims(flow.store.engine, owner=f"w{n}", lease=60) for n in range(8)]
    barrier, won = threading.Barrier(len(claims)), []

    def ask(claims: Claims) -> None:
        barrier.wait()
        won.append(claims.claim(request_id, replay=False))

    threads = [threading.Thread(target=ask, args=(claims,)) for claims in claims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(outcome, Claim) for outcome in won) == 1
    assert won.count(Refused.BUSY) == 7


@pytest.mark.guarantee("reports: backoff 1, 2, 4 s")
def test_a_transient_failure_is_retried_after_1_2_and_4_seconds() -> None:
    policy = policy_of(Reports().retry)
    for attempt, expected in ((1, 1.0), (2, 2.0), (3, 4.0)):
        waits = [policy.delay(attempt) or 0 for _ in range(200)]
        assert 0.75 * expected <= min(waits) <= max(waits) <= 1.25 * expected
        assert len(set(waits)) > 1


@pytest.mark.guarantee("reports: 5 retries, then the DLQ")
def test_the_event_is_dead_lettered_and_the_row_failed_when_retries_are_exhausted(
    workflow: Workflows, echo: Echoes
) -> None:
    flow = workflow()

    def before(request: ReportRequest, context: ReportContext) -> None:
        raise RetriableError("the archive is unavailable")

    strategy = echo(before)
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logged:
        flow.worker(strategy)
        request_id = flow.submit(n=1)
        row = flow.wait_for(request_id, Status.FAILED)
        flow.wait_until(lambda: any(e["event"] == "request given up" for e in logged))
    assert {e.get("correlation_id") for e in logged if e.get("request_id") == request_id} == {request_id}
    assert (row.attempts, len(strategy.made)) == (4, 4)
    assert row.error_message == "the archive is unavailable"
    (dead_letter,) = flow.dead_letters()
    (event,) = events(flow, 1)
    assert (dead_letter.key(), dead_letter.value(), dead_letter.partition()) == (
        event.key(),
        event.value(),
        event.partition(),
    )
    headers = dict(dead_letter.headers())
    assert headers["__dlq.errors.exception.class.name"].endswith(b"RetriableError")
    assert headers["__dlq.errors.delivery.count"] == b"4"
    assert headers["__dlq.errors.correlation.id"] == request_id.encode()
    flow.wait_until(lambda: flow.lag() == 0)


@pytest.mark.guarantee("reports: poison message")
def test_a_poison_message_goes_to_the_dlq_when_its_payload_is_bad(workflow: Workflows) -> None:
    flow = workflow()
    flow.worker()
    producer = Producer(flow.connection)
    asked = {
        "reportType": "ECHO",
        "requestedBy": "a",
        "parametersJson": "{}",
        "requestedAt": "2026-03-29T00:00:00Z",
    }
    bad: list[bytes | None] = [b"not json", b"[]", b'{"requestId":"x"}', None, b"[" * 100_000]
    # No database takes these.
    bad += [json.dumps({**asked, "requestId": each}).encode() for each in ("a\0", "a\ud800")]
    for value in bad:
        # The key of a Java program that sends a Long.
        producer.produce(flow.settings.topic, partition=0, key=b"\0\0\0\0\0\0\0\x07", value=value)
    producer.flush(10)
    request_id = flow.submit()
    flow.wait_for(request_id, Status.COMPLETED)
    flow.wait_until(lambda: flow.lag() == 0)
    assert [dead_letter.value() for dead_letter in flow.dead_letters()] == bad


def test_a_request_fails_alone_when_its_error_has_text_that_no_database_takes(
    workflow: Workflows, echo: Echoes
) -> None:
    def fails(request: ReportRequest, context: ReportContext) -> None:
        if request.parameters:
            raise ValueError(f"no table {request.parameters['source']}, password=hunter2")

    flow = workflow(max_retries=0)
    flow.worker(echo(fails))
    wrong, _ = flow.service.submit("ECHO", requested_by="a", parameters='{"source":"\\u0000"}')
    row = flow.wait_for(wrong.request.request_id, Status.FAILED)
    assert "no table ?" in (row.error_message or "")
    assert "hunter2" not in (row.error_message or "")
    flow.wait_for(flow.submit(), Status.COMPLETED)


def test_other_requests_are_published_when_one_is_too_large_for_the_topic(workflow: Workflows) -> None:
    flow = workflow(publish_grace=0)
    with pytest.raises(UsageError, match="larger than 262144 bytes"):
        flow.service.submit("ECHO", requested_by="a", parameters={"n": "x" * 300_000})
    for request_id, size in (("large", 2_000_000), ("small", 1)):
        parameters = json.dumps({"n": "x" * size})
        flow.store.submit(
            ReportRequest(request_id, "ECHO", "a", parameters, "2026-03-29"), correlation_id="c"
        )
    with structlog.testing.capture_logs() as logged:
        assert Sweeper(flow.store, flow.service._publisher, flow.settings).sweep().published == 1
    assert [e["request_id"] for e in logged if e["event"] == "cannot be published"] == ["large"]
    assert [message.key() for message in events(flow, 1)] == [b"small"]
    assert flow.service.status("large").status is Status.FAILED


@pytest.mark.guarantee("reports: replay is safe")
def test_a_request_runs_again_when_its_dead_letter_is_published_again(
    workflow: Workflows, echo: Echoes
) -> None:
    flow = workflow()
    healed = threading.Event()

    def before(request: ReportRequest, context: ReportContext) -> None:
        if not healed.is_set():
            raise RetriableError("down")

    flow.worker(echo(before))
    request_id = flow.submit()
    flow.wait_for(request_id, Status.FAILED)
    healed.set()
    (dead_letter,) = flow.dead_letters()
    producer = Producer(flow.connection)
    for _ in range(2):
        # Twice, for a replay must be safe.
        producer.produce(
            flow.settings.topic,
            key=dead_letter.key(),
            value=dead_letter.value(),
            headers=dead_letter.headers(),
        )
    producer.flush(10)
    flow.wait_for(request_id, Status.COMPLETED)
    flow.wait_until(lambda: flow.lag() == 0)
    assert flow.service.status(request_id).attempts == 5


def test_a_failed_request_stays_failed_when_its_old_event_is_only_redelivered(workflow: Workflows) -> None:
    flow = workflow()
    flow.worker()
    request_id = flow.submit("NO_SUCH_TYPE")
    row = flow.wait_for(request_id, Status.FAILED)
    flow.service._publisher.publish(row)
    flow.wait_until(lambda: flow.lag() == 0)
    assert len(flow.dead_letters()) == 1
    assert flow.service.status(request_id).attempts == 1


def test_an_unknown_report_type_is_given_up_at_once(workflow: Workflows) -> None:
    flow = workflow()
    flow.worker()
    request_id = flow.submit("NO_SUCH_TYPE")
    row = flow.wait_for(request_id, Status.FAILED)
    assert row.attempts == 1
    assert "NO_SUCH_TYPE" in (row.error_message or "")


def test_a_failed_request_is_run_again_when_it_is_retried(workflow: Workflows, echo: Echoes) -> None:
    flow = workflow()
    healed = threading.Event()

    def before(request: ReportRequest, context: ReportContext) -> None:
        if not healed.is_set():
            raise NonRetriableError("wrong")

    flow.worker(echo(before))
    request_id = flow.submit()
    flow.wait_for(request_id, Status.FAILED)
    healed.set()
    assert flow.service.retry(request_id).generation == 2
    flow.wait_for(request_id, Status.COMPLETED)
    with pytest.raises(UsageError, match="is COMPLETED"):
        flow.service.retry(request_id)


def test_nothing_is_archived_when_a_running_request_is_cancelled(workflow: Workflows, echo: Echoes) -> None:
    flow = workflow(lease=0.6)
    running, noticed = threading.Event(), []

    def before(request: ReportRequest, context: ReportContext) -> None:
        running.set()
        noticed.append(context.ended.wait(10))

    flow.worker(echo(before))
    request_id = flow.submit()
    flow.wait_until(running.is_set)
    flow.service.cancel(request_id)
    flow.wait_until(lambda: flow.lag() == 0)
    assert noticed == [True]
    assert flow.service.status(request_id).status is Status.CANCELLED
    assert flow.archive.refs() == set()


def test_a_cancelled_request_never_starts_when_its_event_comes_later(
    workflow: Workflows, echo: Echoes
) -> None:
    flow = workflow()
    request_id = flow.submit()
    flow.service.cancel(request_id)
    strategy = echo()
    flow.worker(strategy)
    flow.wait_until(lambda: flow.lag() == 0)
    assert strategy.made == []
    assert flow.service.status(request_id).status is Status.CANCELLED


def test_the_lease_is_renewed_when_a_report_takes_longer_than_it(workflow: Workflows, echo: Echoes) -> None:
    flow = workflow(lease=0.9, sweep_interval=0.2)
    strategy = echo(lambda request, context: time.sleep(2.5))
    flow.worker(strategy)
    request_id = flow.submit()
    flow.wait_for(request_id, Status.COMPLETED)
    assert strategy.made == [request_id]
    assert flow.service.status(request_id).crashes == 0


def test_a_request_is_given_up_when_it_took_too_many_workers_down(workflow: Workflows) -> None:
    flow = workflow(max_crashes=2)
    request_id = flow.submit()
    for _ in range(3):
        time.sleep(0.05)
        assert isinstance(
            Claims(flow.store.engine, owner="doomed", lease=0.01).claim(request_id, replay=False), Claim
        )
    time.sleep(0.05)
    flow.worker()
    row = flow.wait_for(request_id, Status.FAILED)
    assert "workers died" in (row.error_message or "")
    assert len(flow.dead_letters()) == 1


@pytest.mark.guarantee("reports: 3 correlation id")
def test_the_correlation_id_is_the_same_from_submission_to_archive(workflow: Workflows) -> None:
    flow = workflow()
    with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logged:
        row, _ = flow.service.submit("ECHO", requested_by="a", parameters={}, correlation_id="trace-7")
        flow.worker()
        flow.wait_for(row.request.request_id, Status.COMPLETED)
        flow.wait_until(lambda: any(entry["event"] == "completed" for entry in logged))
    (event,) = events(flow, 1)
    assert dict(event.headers())["correlation_id"] == b"trace-7"
    assert dict(event.headers())[GENERATION] == b"1"
    of_request = [entry for entry in logged if entry.get("request_id") == row.request.request_id]
    assert {entry["event"] for entry in of_request} >= {"submitted", "in progress", "completed"}
    assert {entry["correlation_id"] for entry in of_request} == {"trace-7"}
    done = flow.service.status(row.request.request_id)
    assert done.correlation_id == "trace-7"
    assert flow.archive.read(done.archive_ref).summary["request"]["correlationId"] == "trace-7"


def test_a_worker_is_not_stopped_by_one_request_whatever_it_raises() -> None:
    class Own(Exception):
        pass

    for error in (NonRetriableError("x"), UsageError("x"), Own("x"), RetriableError("x"), KeyError("x")):
        assert judge(error).scope is not Scope.PROCESS
    assert judge(RetriableError("x")).retriable
    assert not judge(UsageError("x")).retriable
    refused = judge(DataError("UPDATE", {}, Exception("NUL")))
    assert (refused.scope, refused.deferred, refused.retriable) == (Scope.RECORD, False, False)
    assert judge(BreakerOpen("open", retry_after=9)).deferred
    assert judge(BreakerOpen("open", retry_after=9)).retry_after == 9
    assert judge(ArchiveRefused("no such bucket")).scope is Scope.PROCESS
    assert (
        "secret" not in judge(OperationalError("UPDATE secret", {"p": "secret"}, Exception("secret"))).message
    )


def test_the_same_submission_again_is_the_same_request(workflow: Workflows) -> None:
    flow = workflow()
    first = flow.service.submit("ECHO", requested_by="a", parameters={"n": 1}, request_id="r-7")
    again = flow.service.submit("ECHO", requested_by="a", parameters={"n": 1}, request_id="r-7")
    assert (first[1], again[1]) == (True, False)
    with pytest.raises(UsageError, match="other content"):
        flow.service.submit("ECHO", requested_by="a", parameters={"n": 2}, request_id="r-7")
    assert len(events(flow, 1)) == 1


def test_an_event_that_was_lost_is_published_again_after_a_while(workflow: Workflows) -> None:
    flow = workflow(republish_after=0.3)
    request_id = flow.submit()
    sweeper = Sweeper(flow.store, flow.service._publisher, flow.settings)
    assert sweeper.sweep().published == 0
    time.sleep(0.5)
    assert sweeper.sweep().published == 1
    assert {message.key() for message in events(flow, 2)} == {request_id.encode()}


@pytest.mark.parametrize("database_kind", ["postgresql"], indirect=True)
def test_the_worker_waits_and_gives_nothing_up_when_the_database_is_unavailable(
    workflow: Workflows, postgres: str, database: str
) -> None:
    flow = workflow()
    flow.worker()
    flow.wait_for(flow.submit(), Status.COMPLETED)
    request_id = flow.submit(slow=True)
    name = make_url(database).database
    outside = create_engine(
        postgres.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
    )
    with outside.connect() as connection:
        connection.execute(text(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false"))
        connection.execute(
            text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        )
        time.sleep(2)
        connection.execute(text(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true"))
    outside.dispose()
    flow.wait_for(request_id, Status.COMPLETED)
    assert flow.dead_letters() == []


def test_one_dead_letter_is_written_when_failed_cannot_be_noted_at_once(
    workflow: Workflows, echo: Echoes, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = workflow()
    broken = iter(range(3))
    real = Claims.fail

    def fail(claims: Claims, request_id: str, **error: str) -> bool:
        if next(broken, None) is not None:
            raise OperationalError("UPDATE", {}, Exception("connection lost"))
        return real(claims, request_id, **error)

    monkeypatch.setattr(Claims, "fail", fail)

    def before(request: ReportRequest, context: ReportContext) -> None:
        raise ValueError("no")

    flow.worker(echo(before))
    request_id = flow.submit()
    flow.wait_for(request_id, Status.FAILED)
    assert len(flow.dead_letters()) == 1


@pytest.mark.guarantee("listener: several consumers in several processes")
def test_six_workers_share_the_six_partitions(workflow: Workflows, echo: Echoes) -> None:
    flow = workflow()
    strategies = [echo(lambda request, context: time.sleep(0.02)) for _ in range(6)]
    for strategy in strategies:
        flow.worker(strategy)
    flow.wait_until(lambda: flow.members() == 6)
    requests = {flow.submit(n=n) for n in range(60)}
    flow.wait_until(lambda: flow.store.counts() == {Status.COMPLETED: 60})
    assert {made for strategy in strategies for made in strategy.made} == requests
    assert sum(len(strategy.made) for strategy in strategies) == 60
    assert sum(bool(strategy.made) for strategy in strategies) > 1
