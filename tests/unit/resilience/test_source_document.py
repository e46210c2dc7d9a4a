"""Every line of "Error Classification" in the source document on reliability is a row here."""

from __future__ import annotations

import pytest

from tidemark.contract.failures import Action, Scope
from tidemark.resilience.classification import Classifier

RETRY, CONFLICT, DLQ, STOP = Action.RETRY, Action.RETRY_OP, Action.DLQ, Action.STOP

RETRIABLE = [
    # Network and I/O issues
    ("java.net.ConnectException: Connection refused", RETRY),
    ("java.net.SocketTimeoutException: Read timed out", RETRY),
    ("java.net.UnknownHostException: bucket.s3.amazonaws.com", RETRY),
    ("java.util.concurrent.TimeoutException: null", RETRY),
    ("java.io.IOException: stream closed", RETRY),
    # AWS/S3 transient issues
    ("software.amazon.awssdk.services.s3.model.ServiceException: x", RETRY),
    ("software.amazon.awssdk.services.sqs.model.ThrottlingException: x", RETRY),
    ("com.amazonaws.services.InternalServerError: x", RETRY),
    ("com.amazonaws.services.ServiceUnavailableException: x", RETRY),
    ("com.amazonaws.services.SlowDownException: x", RETRY),
    # Delta Lake transient issues
    ("java.util.ConcurrentModificationException: x", CONFLICT),
    ("java.io.FileNotFoundException: part-0.parquet", RETRY),
    # Message-based classification
    ("the call ended in a timeout", RETRY),
    ("Connection was closed by the peer", RETRY),
    ("the service is unavailable", RETRY),
    ("requests are being throttled", RETRY),
    ("Rate limit exceeded", RETRY),
    # HTTP status codes
    ("HTTP 429", RETRY),
    ("answered with status code 500", RETRY),
    ("502 Bad Gateway", RETRY),
    ("HTTP/1.1 503 Service Unavailable", RETRY),
    ("Server returned HTTP response code: 504 for URL", RETRY),
]
NON_RETRIABLE = [
    # Schema and data issues
    ("Schema validation failed: user_id is required", DLQ, Scope.RECORD),
    ("Malformed JSON at line 1", DLQ, Scope.RECORD),
    ("com.fasterxml.jackson.core.JsonParseException: Unexpected end of input", DLQ, Scope.RECORD),
    ("Configuration error: no bootstrap servers", STOP, Scope.PROCESS),
    ("org.apache.kafka.common.config.ConfigException: Missing required configuration", STOP, Scope.PROCESS),
    # Permanent AWS/S3 issues
    ("Authentication failed for user tidemark", STOP, Scope.PROCESS),
    ("org.apache.kafka.common.errors.SaslAuthenticationException: x", STOP, Scope.PROCESS),
    ("Authorization failed", STOP, Scope.PROCESS),
    ("org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized: [t]", STOP, Scope.PROCESS),
    ("The bucket tidemark-lake does not exist", STOP, Scope.PROCESS),
    ("software.amazon.awssdk.services.s3.model.NoSuchBucketException: x", STOP, Scope.PROCESS),
]


@pytest.mark.guarantee("reliability: what is retriable")
@pytest.mark.parametrize(("text", "action"), RETRIABLE, ids=[text for text, _ in RETRIABLE])
def test_error_is_retried_when_the_source_document_calls_it_retriable(text: str, action: Action) -> None:
    decision = Classifier().classify(text)
    assert (decision.action, decision.scope) == (action, Scope.DEPENDENCY)
    assert decision.rule != "unclassified"


@pytest.mark.guarantee("reliability: what is not")
@pytest.mark.parametrize(("text", "action", "scope"), NON_RETRIABLE, ids=[row[0] for row in NON_RETRIABLE])
def test_error_is_not_retried_when_the_source_document_calls_it_permanent(
    text: str, action: Action, scope: Scope
) -> None:
    decision = Classifier().classify(text)
    assert (decision.action, decision.scope) == (action, scope)
    assert not decision.counts_for_breaker


@pytest.mark.guarantee("reliability: HTTP statuses")
@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_status_is_retried_when_an_http_client_reports_it(status: int) -> None:
    import httpx

    response = httpx.Response(status, request=httpx.Request("GET", "http://registry.test"))
    with pytest.raises(httpx.HTTPStatusError) as caught:
        response.raise_for_status()
    decision = Classifier().classify(caught.value)
    assert (decision.action, decision.scope, decision.counts_for_breaker) == (RETRY, Scope.DEPENDENCY, True)


@pytest.mark.parametrize("text", ["offset 500 of partition 3 is odd", "read 429 records", "batch 502"])
def test_number_in_a_message_is_no_status_when_nothing_calls_it_one(text: str) -> None:
    assert Classifier().classify(text).rule == "unclassified"
