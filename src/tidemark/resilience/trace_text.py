"""Parses the exceptions in a text: a JVM stack trace, a Python traceback, a message.

Many JVM errors reach Python as text only: everything below the first cause, exceptions of
executors, and all errors of a `foreachBatch` handler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tidemark.config.redaction import masked_text
from tidemark.contract.failures import Link

MESSAGE_LIMIT = 2048
_TEXT_LIMIT = 262_144
DEPTH = 32

_JAVA_CLASS = r"(?:[A-Za-z_$][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error|Throwable|Failure|Interrupt)\w*"
_HEAD = re.compile(rf"^:?\s?({_JAVA_CLASS})(?::(?:\s+(.*))?)?$")
_CAUSE = re.compile(
    r"^Caused by:\s+((?:[A-Za-z_$][\w$]*\.)*[A-Z][\w$]*(?:\.[A-Z][\w$]*)*)(?::(?:\s+(.*))?)?$"
)
_TASK = re.compile(rf"Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\):\s+({_JAVA_CLASS})(?::\s+(.*))?")
_LOSS = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\):\s+((?:ExecutorLost|Fetch)\w+)\s?(.*)")
_NESTED = re.compile(rf"^({_JAVA_CLASS}):\s+(.*)$", re.DOTALL)
_INNER = re.compile(rf"(?<=: )({_JAVA_CLASS}):\s+([^\n]*)")
_FRAME = re.compile(r"^\s+at |^\s*\.\.\. \d+ (more|common frames)|^\s+Suppressed: ")
_TRACEBACK = "Traceback (most recent call last)"
_BETWEEN = re.compile(r"During handling of the above|The above exception was")
_PYTHON_HEAD = re.compile(r"^((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?::(?:\s+(.*))?)?$")

_CONDITION = re.compile(r"(?:^|: |\n)\s*\[([A-Z][A-Z0-9_]{3,}(?:\.[A-Z0-9_]+)*)\]")
_SQLSTATE = re.compile(r"SQLSTATE:\s*([0-9A-Z]{5})\b")
_AWS_REPLY = re.compile(r"\(Service: [^,)]+, Status Code: (\d{3})[^)]*\)(?:\s*\([^)]*\))?(?::(\w+))?")
_AWS_CODE = re.compile(r"Error Code: (\w+)|\bAn error occurred \((\w+)\) when calling the ")
_KAFKA_ERROR = re.compile(r"KafkaError\{(?:FATAL,)?code=(\w+)")


def links_in(text: str) -> tuple[Link, ...]:
    """The exceptions in a trace or a message, outermost first. Plain prose has none."""
    found: list[Link] = []
    for name, message in _exceptions(text[:_TEXT_LIMIT]):
        found += _with_inner(name, message)
    return tuple(dict.fromkeys(found))


def described(name: str, message: str) -> Link:
    """A link with the condition, the SQLSTATE and the AWS reply that its message contains."""
    condition = _CONDITION.search(message)
    states = _SQLSTATE.findall(message)
    reply = _AWS_REPLY.search(message)
    quoted = _AWS_CODE.search(message)
    code = (reply and reply[2]) or (quoted and (quoted[1] or quoted[2]))
    kafka = _KAFKA_ERROR.search(message)
    return Link(
        name,
        masked_text(message)[:MESSAGE_LIMIT].strip(),
        condition=condition[1] if condition and not message[: condition.start()].strip() else None,
        sqlstate=states[-1] if states else None,
        http_status=int(reply[1]) if reply else None,
        aws_code=code or None,
        kafka_code=kafka[1] if kafka else None,
    )


def links_in_message(message: str) -> tuple[Link, ...]:
    """Exceptions and conditions that are quoted inside another exception's message."""
    inner = [described(match[1], match[2]) for match in _INNER.finditer(message[:_TEXT_LIMIT])]
    conditions = _CONDITION.findall(message[:_TEXT_LIMIT])
    own = described("", message).condition
    quoted = [Link("", condition=c, message=f"[{c}]") for c in dict.fromkeys(conditions) if c != own]
    return tuple(inner + quoted)


def _with_inner(name: str, message: str) -> Iterator[Link]:
    yield described(name, message)
    for _ in range(DEPTH):
        nested = _NESTED.match(message)
        if nested is None:
            break
        name, message = nested[1], nested[2]
        yield described(name, message)
    yield from links_in_message(message)


def _exceptions(text: str) -> Iterator[tuple[str, str]]:
    """(class, message) of every exception, outermost first; chained Python tracebacks are reversed."""
    name, body = "", list[str]()
    pending: list[tuple[str, str]] = []
    in_traceback = in_frames = False
    for line in text.splitlines():
        if _TRACEBACK in line:
            if name:
                yield name, "\n".join(body)
            outer = _CAUSE.match(line) or _HEAD.match(line)
            if outer:
                yield outer[1], (outer[2] or "").partition(_TRACEBACK)[0]
            name, body, in_traceback = "", [], True
            continue
        if in_traceback:
            head = None if line[:1].isspace() else _PYTHON_HEAD.match(line)
            if head:
                pending.append((head[1], head[2] or ""))
                in_traceback = False
            continue
        head = _CAUSE.match(line) or _HEAD.match(line)
        lost = _TASK.search(line) or _LOSS.search(line)
        if head or _FRAME.match(line):
            if name and (head or not in_frames):
                yield name, "\n".join(body)
                name, body = "", []
            in_frames = not head
        if head or lost:
            yield from reversed(pending)
            pending = []
        if head:
            name, body = head[1], [head[2] or ""]
        elif name:
            body.append(line)
        elif pending and not in_frames and line.strip() and not _BETWEEN.match(line):
            pending_name, message = pending[-1]
            pending[-1] = (pending_name, f"{message}\n{line}")
        if lost:
            if name:
                yield name, "\n".join(body)
            name, body = lost[1], [lost[2] or ""]
    if name:
        yield name, "\n".join(body)
    yield from reversed(pending)


def same_failure(outer: Link, inner: Link) -> Link | None:
    """The two as one link, where a Python exception and the head of its JVM trace are the same failure."""
    if outer.simple_name != inner.simple_name:
        return None
    return replace(
        inner,
        message=inner.message or outer.message,
        kin=(outer.name, *outer.kin),
        condition=inner.condition or outer.condition,
        sqlstate=inner.sqlstate or outer.sqlstate,
        grpc_code=outer.grpc_code,
    )
