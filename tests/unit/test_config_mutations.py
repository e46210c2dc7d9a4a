"""Whatever stands in the file, the answer is settings or a list of faults, never another error."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tidemark.config.reading.faults import ConfigurationFaults
from tidemark.config.reading.load import parse_settings

CONF = Path(__file__).parents[2] / "conf"
ODD: list[Any] = [
    None, [], {}, "", "x", "~nobody/x", -1, 0, 1.5, True, [1, 2], {"a": 1}, [{}], [[]], [None], "${X}",
    "${X:}", "a" * 300, "a" * 5000, {"a": {"b": {"c": 1}}}, 10**30, "\0", "..", "/",
    float("nan"), float("inf"),
]  # fmt: skip


def whole() -> dict[str, Any]:
    document = yaml.safe_load((CONF / "tidemark.yml").read_text())
    document["aws"] = {"s3": {"endpoint": "http://x:1", "access-key-id": "a", "secret-access-key": "b"}}
    document["kafka"]["security"] = {"protocol": "SASL_SSL", "sasl": {"username": "u", "password": "p"}}
    document["listener"] = {"topics": ["q"], "group-id": "g", "retry": {"base": 1}}
    document["reports"] = {"topic": "r", "archive": {"location": "x"}}
    document["metrics"] = {"table": {"table": "a.b"}}
    document["connector"]["topics"]["two"] = {
        "kafka-topic": "x",
        "landing": {"destination": {"table": "q"}},
    }
    return dict(document)


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from paths(value[key], (*at, key))


def mutate(document: dict[str, Any], chosen: random.Random) -> None:
    *front, last = chosen.choice([p for p in paths(document) if p])
    here: Any = document
    for part in front:
        here = here[part]
    kind = chosen.random()
    if kind < 0.6:
        here[last] = copy.deepcopy(chosen.choice(ODD))
    elif kind < 0.8:
        del here[last]
    elif isinstance(here, dict):
        here[chosen.choice(["x", "kafka", "mode", f"{last}s", "spring"])] = copy.deepcopy(here[last])


def test_a_mutated_configuration_gives_settings_or_faults() -> None:
    chosen = random.Random(20241115)
    outcomes = {"settings": 0, "faults": 0}
    for _ in range(300):
        document = whole()
        for _ in range(chosen.randint(1, 3)):
            mutate(document, chosen)
        text = yaml.safe_dump(document, allow_unicode=True)
        try:
            parse_settings(text, root=CONF, environ={})
            outcomes["settings"] += 1
        except ConfigurationFaults:
            outcomes["faults"] += 1
    assert min(outcomes.values()) > 20
