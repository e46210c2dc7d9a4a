"""The errors that Tidemark raises.

    TidemarkError
    ├── ConfigError          the configuration has faults; all of them at once     exit code 2
    ├── UsageError           a command was used wrongly                            exit code 2
    ├── NonRetriableError    PROCESS scope: a person must act; the stream stops    exit code 1
    │   ├── Fenced           another writer holds this table's ledger
    │   ├── LedgerError      the table's log contradicts the stream
    │   ├── DataLoss         Kafka no longer has records that were not read
    │   └── SchemaConflict   the table's schema is not the stream's
    ├── RetriableError       DEPENDENCY scope: may succeed later
    │   ├── Locked           another writer is committing to the table
    │   ├── RestartStream    the query must start again from the ledger
    │   ├── RetriesExhausted retries or their deadline are used up; has the error info and the decision
    │   └── BreakerOpen      the destination is not tried for now
    └── ShutdownRequested    a signal asked the process to end while it waited; not a failure

`RetriableError` and `NonRetriableError` are public: executors and report strategies of users raise them, or
subclasses, to classify their failures.
"""

from __future__ import annotations

import re

from tidemark.contract.failures import UNCLASSIFIED, Decision, ErrorInfo, in_one_line


class TidemarkError(Exception):
    """`message` is what went wrong, `hint` what to do about it. Can be pickled."""

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
    """`retry_after`: the seconds that the other side asked to wait, a minimum of the next backoff."""

    condition = "TIDEMARK_RETRIABLE"

    def __init__(self, message: str, hint: str | None = None, *, retry_after: float | None = None) -> None:
        super().__init__(message, hint)
        self.retry_after = retry_after


class Locked(RetriableError):
    """The table can be written once the other writer is done, so a batch that waits for it is kept."""

    condition = "TIDEMARK_LOCKED"


class RestartStream(RetriableError):
    condition = "TIDEMARK_RESTART"


class RetriesExhausted(RetriableError):
    """Raised `from` the last error, which was retriable. `attempts` is the number of attempts of the step."""

    condition = "TIDEMARK_EXHAUSTED"

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        *,
        attempts: int = 1,
        error_info: ErrorInfo | None = None,
        decision: Decision = UNCLASSIFIED,
    ) -> None:
        super().__init__(message, hint, retry_after=error_info.retry_after if error_info else None)
        self.attempts = attempts
        self.error_info = error_info or ErrorInfo()
        self.decision = decision


class BreakerOpen(RetriableError):
    """The step was not tried. `retry_after`: seconds until the breaker allows a probe."""

    condition = "TIDEMARK_BREAKER_OPEN"


class ShutdownRequested(TidemarkError):
    condition = "TIDEMARK_SHUTDOWN"


_PY4J_PREFIX = "An error occurred while calling "
"""The first line of every JVM error that comes through Py4J."""
_CAUSED_BY = "Caused by: "


def summary_of_error(error: BaseException) -> str:
    """One line for a person: the message and, of a JVM error, its root cause; no hint, no trace."""
    if isinstance(error, TidemarkError):
        return error.message
    text = "\n".join(line for line in str(error).splitlines() if not line.startswith(_PY4J_PREFIX))
    first, *causes = re.split(rf"^{_CAUSED_BY}", text, flags=re.MULTILINE)
    message = in_one_line(first).removeprefix(": ").strip() or type(error).__name__
    return "; caused by ".join([message, *(in_one_line(cause) for cause in causes[-1:])])
