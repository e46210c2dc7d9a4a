"""The errors Tidemark raises, one small tree.

    TidemarkError
    ├── ConfigError          the configuration has faults; all of them at once     exit code 2
    ├── UsageError           a command was used wrongly                            exit code 2
    ├── NonRetriableError    PROCESS scope: a person must act; the stream stops    exit code 1
    │   ├── Fenced           another writer holds this table's ledger
    │   ├── LedgerError      the table's log and the stream do not fit together
    │   ├── DataLoss         Kafka no longer has records that were not read
    │   └── SchemaConflict   the table's schema is not the stream's
    └── RetriableError       DEPENDENCY scope: may heal by itself
        └── RestartStream    the query must start again from the ledger

`RetriableError` and `NonRetriableError` are public: executors, report strategies and decoders that
users write raise them, or subclasses, to say which kind their failure is.
"""

from __future__ import annotations


class TidemarkError(Exception):
    """What went wrong, and in `hint` what to do about it. Survives pickling."""

    condition = "TIDEMARK"
    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        text = f"[{self.condition}] {self.message}"
        return f"{text}\nhint: {self.hint}" if self.hint else text


class ConfigError(TidemarkError):
    condition = "TIDEMARK_CONFIG"
    exit_code = 2


class UsageError(TidemarkError):
    condition = "TIDEMARK_USAGE"
    exit_code = 2


class NonRetriableError(TidemarkError):
    condition = "TIDEMARK_STOP"


class Fenced(NonRetriableError):
    condition = "TIDEMARK_FENCED"


class LedgerError(NonRetriableError):
    condition = "TIDEMARK_LEDGER"


class DataLoss(NonRetriableError):
    condition = "TIDEMARK_DATA_LOSS"


class SchemaConflict(NonRetriableError):
    condition = "TIDEMARK_SCHEMA"


class RetriableError(TidemarkError):
    """`retry_after`: seconds the other side asked to be left alone, a floor for the next backoff."""

    condition = "TIDEMARK_RETRIABLE"

    def __init__(self, message: str, hint: str | None = None, *, retry_after: float | None = None) -> None:
        super().__init__(message, hint)
        self.retry_after = retry_after


class RestartStream(RetriableError):
    condition = "TIDEMARK_RESTART"
