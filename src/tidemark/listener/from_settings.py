"""The listener's settings, from the whole configuration."""

from __future__ import annotations

import importlib
from typing import Any

from tidemark.config.listener import Listener
from tidemark.config.settings import Settings
from tidemark.contract.errors import ConfigError
from tidemark.listener.executor import Handler
from tidemark.source.clients import admin_options


def listener_of(settings: Settings) -> Listener:
    """The `listener` section; keys that it leaves out come from `kafka.consumer`.

    Raises `ConfigError` without that section.
    """
    section = settings.listener
    if section is None:
        raise ConfigError("the configuration has no section `listener`", hint="see docs/listener.md")
    return section.completed_by(settings.kafka.consumer)


def connection_of(settings: Settings) -> dict[str, Any]:
    """How to reach Kafka, in librdkafka's names, for consumers and producers. Holds secrets: never log it."""
    return dict(admin_options(settings.kafka))


def handler_of(name: str) -> Handler:
    """The callable that `package.module:function` names."""
    module_name, _, attribute = name.partition(":")
    try:
        handler = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"the handler {name} cannot be imported: {error}", hint="write it as `package.module:function`"
        ) from error
    if not callable(handler):
        raise ConfigError(f"the handler {name} is not callable", hint="it must be a function of one batch")
    return handler  # type: ignore[no-any-return]  # only a call shows its type
