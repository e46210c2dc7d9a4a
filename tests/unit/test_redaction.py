"""No secret survives in a text, however it is written and wherever it stands."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.config.redaction import MASK, masked_text

HEAD, TAIL = "S3CR3T", "TA1L"
NAMES = (
    *("password", "passwd", "sasl_password", "sasl.password", "KAFKA_PASSWORD", "aws_secret_access_key"),
    *(
        "fs.s3a.secret.key",
        "secretAccessKey",
        "client-secret",
        "token",
        "session_token",
        "api_key",
        "x-api-key",
    ),
    *("private_key", "AccountKey", "SharedAccessKey", "sasl.jaas.config", "credential", "DB_PWD"),
)


def in_jaas(name: str, secret: str) -> str:
    escaped = secret.replace("\\", "\\\\").replace('"', '\\"')
    return f'org.apache.kafka.Plain required username="u" password="{escaped}" serviceName="k";'


# Of each way to write a secret down: the characters that may stand in it there.
ANY = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
WORD = st.text(
    st.characters(codec="ascii", min_codepoint=33, exclude_characters="\"'<>;,&(){}[]\\\x7f"), max_size=12
)
LETTERS = st.text("abcXYZ019-_.~+/", max_size=12)

SHAPES: dict[str, tuple[st.SearchStrategy[str], Callable[[str, str], str]]] = {
    "property": (WORD, lambda name, secret: f"{name}={secret}"),
    "properties": (WORD, lambda name, secret: f"a=1;{name}={secret};b=2"),
    "query": (LETTERS, lambda name, secret: f"https://h/p?a=b&{name}={secret}&c=d"),
    "yaml": (WORD, lambda name, secret: f"{name}: {secret}"),
    "java map": (WORD, lambda name, secret: f"{{a=b, {name}={secret}, c=d}}"),
    "option": (WORD, lambda name, secret: f"run --{name} x{secret} --then"),
    "assigned": (ANY, lambda name, secret: f"conf['{name}'] = {secret!r}"),
    "json": (ANY, lambda name, secret: json.dumps({"a": 1, name: secret, "b": "c"})),
    "json, compact": (ANY, lambda name, secret: json.dumps({"a": 1, name: secret}, separators=(",", ":"))),
    "json in json": (ANY, lambda name, secret: json.dumps({"text": json.dumps({name: secret})})),
    "json in json in json": (
        ANY,
        lambda name, secret: json.dumps([json.dumps({"text": json.dumps({name: secret, "a": 1})})]),
    ),
    "json, nested": (ANY, lambda name, secret: json.dumps({name: {"a": [secret, "x"], "b": secret}})),
    "dict": (ANY, lambda name, secret: repr({"a": 1, name: secret})),
    "dict of bytes": (ANY, lambda name, secret: repr({name: secret.encode()})),
    "pairs": (ANY, lambda name, secret: repr([("a", "b"), (name, secret)])),
    "keyword": (ANY, lambda name, secret: f"connect({name.replace('.', '_')}={secret!r}, user='u')"),
    "wrapped": (ANY, lambda name, secret: f"{name}=Secret({secret!r})"),
    "jaas": (ANY, in_jaas),
    "jaas in json": (ANY, lambda name, secret: json.dumps({"text": in_jaas(name, secret)})),
    "jaas property": (ANY, lambda name, secret: f"sasl.jaas.config={in_jaas(name, secret)}"),
    "url": (WORD, lambda _, secret: f"postgresql://app:{secret}@db:5432/x"),
    "url, user with @": (WORD, lambda _, secret: f"postgresql://app@corp.example:{secret}@db/x"),
    "url, encoded": (ANY, lambda _, secret: f"redis://:{quote(secret, safe='')}@db"),
    "bearer": (LETTERS, lambda _, secret: f"Authorization: Bearer {secret}"),
    "basic": (LETTERS, lambda _, secret: f"authorization=Basic {secret}"),
}
PROSE = st.sampled_from(
    ["", "cannot connect: ", 'said "no" to ', "it's {", "a=b, ", "\n", "[", "token ", "see http://h:80/p "]
)


@pytest.mark.parametrize("shape", SHAPES)
@given(data=st.data())
def test_a_secret_never_survives_wherever_it_is_planted(shape: str, data: st.DataObject) -> None:
    characters, written = SHAPES[shape]
    secret = data.draw(characters) + HEAD + data.draw(characters) + TAIL
    text = data.draw(PROSE) + written(data.draw(st.sampled_from(NAMES)), secret) + data.draw(PROSE)
    masked = masked_text(text)
    assert HEAD not in masked, (text, masked)
    assert TAIL not in masked, (text, masked)
    assert MASK in masked
    assert masked_text(masked) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ('{"password": "a\\"b", "user": "u"}', '{"password": "********", "user": "u"}'),
        (
            'x.LoginModule required password="a\\"b" user="u";',
            'x.LoginModule required password="********" user="u";',
        ),
        ("sasl_password=abc user=u", "sasl_password=******** user=u"),
        ("user=u&password=abc&ssl=true", "user=u&password=********&ssl=true"),
        ("{user=u, password=abc, ssl=true}", "{user=u, password=********, ssl=true}"),
        ("AWS_SECRET_ACCESS_KEY=a/b+c=, region=x", "AWS_SECRET_ACCESS_KEY=********, region=x"),
        ("postgresql://u:p/w@db:5432/x failed", "postgresql://u:********@db:5432/x failed"),
        ('"password=abc" was given', '"password=********" was given'),
        ("Authorization: Bearer abcdefgh, then", "Authorization: Bearer ********, then"),
    ],
)
def test_what_is_around_a_secret_stays(text: str, masked: str) -> None:
    assert masked_text(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "the Maven repository at https://repo.example/maven2/a:b does not answer",
        "broker SASL_SSL://b1:9092,b2:9092 refused user=ann, id=7: timeout",
        '{"id": "a", "amount": 3, "token": null, "secret": false}',
        "abfss://container@account.dfs.core.windows.net/lake",
        "org.apache.spark.SparkException: [A.B] at Foo.bar(Foo.scala:12)",
        "the token is needed; see `metrics.token`",
    ],
)
def test_a_text_without_secrets_stays_as_it_is(text: str) -> None:
    assert masked_text(text) == text


@pytest.mark.parametrize("piece", ["password=(", '"', "\\", "://a:", 'token="', "--token ", "a.", "{[("])
def test_the_time_grows_with_the_length_of_the_text_alone(piece: str) -> None:
    began = time.process_time()
    masked_text(piece * 20_000)
    assert time.process_time() - began < 3
