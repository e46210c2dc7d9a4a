"""The report workflow's settings, from the whole configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemark.config.reports import Reports, ReportSource
from tidemark.config.settings import Settings
from tidemark.contract.errors import ConfigError


def reports_of(settings: Settings) -> Reports:
    """The `reports` section with every location resolved. Without one, the defaults: SQLite and a local folder.

    Every stream's decoded table is a source by the stream's name, unless `sources` says otherwise.
    """
    section = settings.reports or Reports()
    consumer = settings.kafka.consumer
    given = section.model_fields_set
    changes: dict[str, Any] = {"sources": _sources(settings, section)}
    if "database" not in given:
        changes["database"] = f"sqlite:///{settings.state_dir / 'reports.db'}"
    archive = section.archive
    if "://" not in archive.location:
        where = (
            archive.location
            if "location" in archive.model_fields_set
            else str(settings.state_dir / "reports")
        )
        archive = archive.model_copy(update={"location": settings.location(where)})
    changes["archive"] = archive.model_copy(
        update={
            "endpoint": archive.endpoint or settings.s3.endpoint,
            "region": archive.region or settings.s3.region,
        }
    )
    changes["breaker"] = section.breaker or settings.breaker
    if "max_poll_interval" not in given:
        changes["max_poll_interval"] = consumer.max_poll_interval_ms / 1000
    if "session_timeout" not in given:
        changes["session_timeout"] = consumer.session_timeout_ms / 1000
    return section.model_copy(update=changes)


def _sources(settings: Settings, section: Reports) -> Mapping[str, ReportSource]:
    found: dict[str, ReportSource] = {}
    for name in {**settings.streams, **section.sources}:
        source = section.sources.get(name, ReportSource())
        if source.table is not None:
            table = settings.location(source.table) if "/" in source.table else source.table
        elif name in settings.streams and (decoded := settings.tables(name).get("decoded")) is not None:
            table = str(decoded)
        elif name in section.sources:
            raise ConfigError(
                f"`reports.sources.{name}` names no table, and no stream of that name has one",
                hint="name its `table`",
            )
        else:
            continue
        found[name] = source.model_copy(update={"table": table})
    return found


def s3_credentials(settings: Settings) -> dict[str, str]:
    """Credentials of the configuration for the archive's client; empty where boto3's own chain finds them."""
    s3 = settings.s3
    secrets = {
        "aws_access_key_id": s3.access_key_id,
        "aws_secret_access_key": s3.secret_access_key,
        "aws_session_token": s3.session_token,
    }
    return {name: secret.get_secret_value() for name, secret in secrets.items() if secret is not None}
