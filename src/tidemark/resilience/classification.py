"""`Classifier`: finds the rule of a failure, and with it the decision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points

from tidemark.config.failures import FailureRule
from tidemark.contract.errors import ConfigError, RetriesExhausted
from tidemark.contract.failures import UNCLASSIFIED, Action, Decision, ErrorInfo, Scope
from tidemark.resilience import rules_delta, rules_services, rules_veto
from tidemark.resilience.error_info import error_info_of
from tidemark.resilience.match import Match
from tidemark.resilience.rule import Rule, Tier

ENTRY_POINT_GROUP = "tidemark.classification_rules"

BUILT_IN: tuple[Rule, ...] = (
    *rules_veto.OWN,
    *rules_veto.VETO,
    *rules_delta.DELTA,
    *rules_veto.PUBLIC,
    *rules_services.KAFKA,
    *rules_services.AWS,
    *rules_services.HTTP,
    *rules_services.NETWORK_CLASSES,
    *rules_services.RECORD_CLASSES,
    *rules_delta.STOPPED,
    *rules_delta.SQLSTATES,
    *rules_services.GENERAL,
    *rules_services.WORDS,
)


@dataclass(frozen=True)
class Classifier:
    """Deterministic, without state, picklable.

    Rules are asked tier by tier (`Tier`). A veto wins wherever in the chain it matches; elsewhere the
    outermost exception that a rule knows decides, and exceptions that no rule knows are skipped.
    `first` are the rules of a topic and of plug-ins: they are asked before all tiers, but against a
    veto only about the exception that it matches, so that a broad rule does not lift it by chance.
    """

    rules: tuple[Rule, ...] = BUILT_IN
    first: tuple[Rule, ...] = ()

    def classify(self, error: object) -> Decision:
        """The decision about an exception, a trace in a string, or an `ErrorInfo`; `rule` names the rule.

        Retries that are used up follow the decision's `then`.
        """
        error_info = error if isinstance(error, ErrorInfo) else error_info_of(error)
        decision = self._first_of(error_info)
        if isinstance(error, RetriesExhausted) and error.decision.then is not None:
            return replace(error.decision, action=error.decision.then, scope=_scope(error.decision.then))
        return decision

    def decision_about(self, error: Exception) -> Decision:
        """The decision about the failure itself: where retries are used up, about that of the last attempt."""
        return error.decision if isinstance(error, RetriesExhausted) else self.classify(error)

    def _first_of(self, error_info: ErrorInfo) -> Decision:
        alone = [ErrorInfo((link,)) for link in error_info.links]
        own = _decided(self._tier(Tier.OWN), alone)
        if own is not None:
            return own
        for link in alone:
            veto = _decided(self._tier(Tier.VETO), [link])
            if veto is not None:
                return _decided(self.first, [link]) or veto
        for rules in (self.first, *(self._tier(tier) for tier in Tier if tier > Tier.VETO)):
            decision = _decided(rules, alone)
            if decision is not None:
                return decision
        return UNCLASSIFIED

    def _tier(self, tier: Tier) -> tuple[Rule, ...]:
        return tuple(rule for rule in self.rules if rule.tier is tier)


def _decided(rules: Sequence[Rule], links: Sequence[ErrorInfo]) -> Decision | None:
    for link in links:
        for rule in rules:
            if rule.predicate(link):
                return replace(rule.decision, rule=rule.name)
    return None


def _scope(action: Action) -> Scope:
    if action is Action.DLQ:
        return Scope.RECORD
    return Scope.PROCESS if action in (Action.STOP, Action.SHUTDOWN) else Scope.DEPENDENCY


def classifier_for(
    failures: Iterable[FailureRule] = (), *, plug_ins: Iterable[Rule] | None = None
) -> Classifier:
    """The classifier of a stream: its own rules, then those of installed plug-ins, then the built-in ones.

    Raises ConfigError if a plug-in cannot be loaded.
    """
    installed = installed_rules() if plug_ins is None else tuple(plug_ins)
    return Classifier(first=(*(rule_of(failure) for failure in failures), *installed))


def rule_of(configured: FailureRule) -> Rule:
    """A rule of the configuration."""
    action = configured.action
    scope = configured.scope or _scope(action)
    return Rule(
        configured.name,
        Match(
            class_pattern=configured.class_,
            condition_pattern=rf"^(?:{configured.condition})$" if configured.condition else None,
            sqlstates=(configured.sqlstate,) if configured.sqlstate else (),
            http=frozenset(configured.http),
            aws=frozenset(configured.aws),
            kafka=frozenset(configured.kafka),
            message=configured.message,
        ),
        Decision(
            configured.category,
            action,
            scope,
            counts_for_breaker=scope is Scope.DEPENDENCY and action is Action.RETRY,
            max_retries=configured.max_retries,
            backoff=configured.backoff.as_backoff() if configured.backoff else None,
            then=configured.then,
        ),
    )


def installed_rules(
    found: Callable[[], Iterable[EntryPoint]] = lambda: entry_points(group=ENTRY_POINT_GROUP),
) -> tuple[Rule, ...]:
    """Rules of installed packages: each entry point is a `Rule`, several, or a function returning them."""
    rules: list[Rule] = []
    for point in sorted(found(), key=lambda p: p.name):
        try:
            value = point.load()
            value = value() if callable(value) and not isinstance(value, Rule) else value
            given = [value] if isinstance(value, Rule) else list(value)
        except Exception as error:
            raise ConfigError(
                f"the classification rules {point.name} ({point.value}) cannot be loaded: {error!r}",
                "fix or uninstall the package that brings them",
            ) from error
        wrong = [rule for rule in given if not isinstance(rule, Rule)]
        if wrong:
            raise ConfigError(
                f"the classification rules {point.name} ({point.value}) hold {wrong[0]!r}",
                "return `tidemark.resilience.rule.Rule` values",
            )
        rules += given
    return tuple(rules)
