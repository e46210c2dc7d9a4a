"""Records as the listener hands them over, and the results of their execution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tidemark.contract.correlation import correlation_id_of
from tidemark.listener.delivery.failure import Failure

Partition = tuple[str, int]
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Record:
    """One Kafka record, its bytes untouched. `timestamp` is in milliseconds, or None."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None
    epoch: int = 0
    """Number of the assignment under which it was received; results of a former assignment are ignored."""

    @property
    def where(self) -> Partition:
        return self.topic, self.partition

    @property
    def coordinates(self) -> str:
        return f"{self.topic}-{self.partition}-{self.offset}"

    def header(self, name: str) -> bytes | None:
        """The last value of that name: headers are a multimap, and later ones correct earlier ones."""
        return next((v for n, v in reversed(self.headers) if n == name), None)

    @property
    def correlation_id(self) -> str:
        """`traceparent`, else `correlation_id` (or `X-Correlation-Id`), else made from the coordinates."""
        return correlation_id_of(self.headers, self.coordinates)


@dataclass(frozen=True)
class Batch:
    """Records of one execution, in the order received; per partition in the order of offsets."""

    records: tuple[Record, ...]
    submission: int = 1
    """How often these records have been handed over, this time included."""
    attempt: int = 1
    """One more than the counted failures of the record that has most of them."""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Kafka's ids of the listener's topics, where known."""

    def __len__(self) -> int:
        return len(self.records)

    @property
    def correlation_id(self) -> str:
        """That of a single record; else made from the first record's coordinates and the number of the others."""
        first, *others = self.records
        return f"{first.coordinates}+{len(others)}" if others else first.correlation_id

    @property
    def spans(self) -> dict[Partition, tuple[int, int]]:
        """Per partition the first and last offset, both inclusive."""
        spans: dict[Partition, tuple[int, int]] = {}
        for record in self.records:
            first, _ = spans.get(record.where, (record.offset, record.offset))
            spans[record.where] = (first, record.offset)
        return spans


class BatchFailure(Exception):
    """Names the record that failed: those before it are done, those after it were not processed."""

    def __init__(self, index: int, cause: BaseException) -> None:
        super().__init__(f"record {index} of the batch failed: {cause}")
        self.index = index
        self.cause = cause


class PartialSuccess(Exception):
    """Names the records that failed, by their index in the batch; all others are done."""

    def __init__(self, failures: Mapping[int, BaseException]) -> None:
        super().__init__(f"{len(failures)} records of the batch failed")
        self.failures = dict(failures)


@dataclass(frozen=True)
class BatchResult:
    """The result of each record of a batch: done, failed, or not processed (`untouched`).

    `whole`: the failure is of the whole batch, so it is not known which record caused it.
    """

    failures: Mapping[int, Failure] = field(default_factory=dict)
    untouched: frozenset[int] = frozenset()
    whole: bool = False

    @property
    def succeeded(self) -> bool:
        return not self.failures and not self.untouched

    def done(self, index: int) -> bool:
        return index not in self.failures and index not in self.untouched

    @classmethod
    def success(cls) -> BatchResult:
        return cls()

    @classmethod
    def whole_failure(cls, size: int, failure: Failure) -> BatchResult:
        return cls(failures=dict.fromkeys(range(size), failure), whole=size > 1)

    @classmethod
    def interrupted(cls, size: int) -> BatchResult:
        return cls(untouched=frozenset(range(size)))

    @classmethod
    def of_failures(
        cls, size: int, failures: Mapping[int, Failure], untouched: Iterable[int] = ()
    ) -> BatchResult:
        if outside := [i for i in (*failures, *untouched) if not 0 <= i < size]:
            raise ValueError(f"indices {outside} are outside a batch of {size} records")
        return cls(failures=dict(failures), untouched=frozenset(untouched))

    @classmethod
    def of_exception(
        cls, size: int, error: BaseException, judge: Callable[[BaseException], Failure]
    ) -> BatchResult:
        """Reads the two exceptions above; any other one fails the whole batch."""
        if isinstance(error, BatchFailure) and _is_index(error.index, size):
            return cls(
                failures={error.index: judge(error.cause)}, untouched=frozenset(range(error.index + 1, size))
            )
        if (
            isinstance(error, PartialSuccess)
            and error.failures
            and all(_is_index(i, size) for i in error.failures)
        ):
            return cls(failures={i: judge(e) for i, e in error.failures.items()})
        return cls.whole_failure(size, judge(error))


def _is_index(index: object, size: int) -> bool:
    """A handler of a user may name anything."""
    return isinstance(index, int) and 0 <= index < size
