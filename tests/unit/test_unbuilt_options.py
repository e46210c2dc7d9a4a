"""Options that the configuration knows and the pipeline cannot do yet are refused, not ignored."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidemark.config.load import parse_settings
from tidemark.contract.errors import ConfigError
from tidemark.pipeline.targets import targets_of


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"idempotency": {"mode": "fingerprint"}}, "idempotency.mode: fingerprint"),
        ({"dead-letter": {"format": "envelope"}}, "dead-letter.format: envelope"),
    ],
)
def test_an_option_is_refused_when_the_pipeline_cannot_do_it(options: dict[str, Any], named: str) -> None:
    stream = {
        "kafka-topic": "t",
        "schema": {"ddl": "id INT"},
        "destination": {"bucket": "./lake", "path": "t"},
        **options,
    }
    settings = parse_settings(
        json.dumps(
            {"kafka": {"bootstrap-servers": "localhost:9092"}, "connector": {"topics": {"orders": stream}}}
        )
    )
    with pytest.raises(ConfigError, match=named):
        targets_of(None, settings, "orders", run="run")  # type: ignore[arg-type]
