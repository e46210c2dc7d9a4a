"""Operations on streams by a person or a job: status, rewind, adopt, backfill, compare, maintain."""
