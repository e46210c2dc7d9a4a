"""What may happen in a schedule of the ledger's model, and the rules that hold against it."""

from __future__ import annotations

from enum import StrEnum


class Event(StrEnum):
    CHECKPOINT_LOSS = "checkpoint loss"
    SECOND_WRITER = "second writer"
    RESTORE = "restore"
    REWIND = "rewind"
    REPLAY = "replay"
    OUTAGE = "outage"
    SCHEMA = "schema"
    """The schema changes: other records are rejected by the starts that follow."""
    EMPTIED = "emptied"
    FORGOTTEN = "forgotten"
    """The log is cleaned up, and with it the marks."""
    ADOPT = "adopt"


class Rule(StrEnum):
    COMPARE_AND_SET = "a ledger commit is made only if none was made since its marks were read"
    MARKS_IN_EFFECT = "a RESTORE takes the marks back"
    PUBLISHED_IN_EFFECT = "a RESTORE takes back, with the marks, how far dead letters are published"
    RESTORE_OF_RESTORE = "a restored version's marks may lie behind another RESTORE"
    CEILING = "below the highest marks ever committed the table decides"
    NO_GAP = "a batch starts at or below the marks"
    FENCE = "another run's commit stops this one before its next batch"
    RESUME_AT_DONE = "a fresh checkpoint starts where dead letters are complete"
    FRESH_CHECKPOINT = "no start takes the name of an earlier start's checkpoint"
    REOPEN = "a RESTORE reopens the dead letters whose replay it undid, at the stream's own start"
    UNDONE_PASSED_ON = "each ledger commit passes on which versions were undone"
    NOTE_CHECKED = "a replay looks for a RESTORE after it noted what became of its dead letters"
    STATUS_SEQUENCE = "a letter's newest status is that of the highest sequence, not of the latest clock"
    REPLAY_BELOW_MARKS = "replay leaves alone what the stream has not completed"
    REPLAY_BELOW_DONE = "what is below the marks alone is not completed"
    REPLAYS_FENCED = "a start that may land records again refuses the replays that decided before it"
    REPLAY_LOOKS_AGAIN = "a replay that was refused compares its dead letters with the marks again"
    RESTORED_DURING_REPLAY = "a replay decides again where rows were taken away while it decided"
    EMPTIED_DURING_BATCH = "after a commit it is looked whether the table was emptied since its base"
    EMPTIED_BEHIND_RESTORE = "a restored version may be one whose table was emptied"
    ADOPT_BELOW_ENDS = "adopted marks lie under a high water above all rows that there can be"
    ADOPT_IN_DOUBT = "adopted marks leave in doubt what may not be published yet"
    ADOPT_REOPENS = "dead letters are open again where everything is to land again"


ALL_RULES = frozenset(Rule)
