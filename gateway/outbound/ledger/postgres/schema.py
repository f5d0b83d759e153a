"""What stands in the schema, by numbered steps that only go forward. A step that was released is never edited.

Made for a log of tens of millions of events whose every statement touches only its own rows:

- `event` only grows: pages are filled to the brim, and both its indexes grow at their ends, for places and ids of runs
  go up with time.
- `attempt` and `accounts` are small and change with every call: their pages are left half empty, so that a changed row
  finds room beside the old one and no index is written (HOT), and what is dead is cleared away after some thousands
  of changes and not after a share of the table.
- Texts compare by their bytes (`COLLATE "C"`): cheaper, the same on every server, and the order that digests have
  everywhere else.
- Payloads are not compressed: at 64 KiB that takes longer than all the rest of a commit.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

KEY = 0x43666F6C
"""`Cfol`: the first half of our advisory locks, the second is the table's, or the schema's. So two ledgers of one
database never wait for each other."""

RARE = ("run.opened", "approval.requested", "approval.decided", "approval.withdrawn")
"""Kinds that are looked for over all runs, and few enough to have an index of their own."""

RARE_SQL = "kind IN ('run.opened', 'approval.requested', 'approval.decided', 'approval.withdrawn')"
"""As the partial index has it; a query must repeat it to be served by that index."""

NAMED_SQL = "kind = 'approval.requested'"
"""What has a name to be found by, as the index has it."""

Migration: TypeAlias = Sequence[str]
"""Statements; `{s}` stands for the schema."""

_ENTER = """
CREATE FUNCTION {s}.enter(p_version integer) RETURNS boolean LANGUAGE plpgsql AS $$
-- Whether the ledger still is of this version, and stays so until we commit. Whoever writes is in here from before its
-- first place until its end; `closed` and a migration wait until nobody is.
BEGIN
    PERFORM pg_advisory_xact_lock_shared({key}, '{s}.event'::regclass::oid::integer);
    RETURN (SELECT version = p_version FROM {s}.ledger);
END $$
"""

_CLOSED = """
CREATE FUNCTION {s}.closed() RETURNS bigint LANGUAGE plpgsql AS $$
-- Places are drawn from a sequence, which is not in the order of commits: 8 may be there before 7. While nobody is
-- between drawing and committing there is no such gap. Writers queue behind us, so we do not wait long.
BEGIN
    PERFORM set_config('lock_timeout', '2s', true);
    PERFORM pg_advisory_xact_lock({key}, '{s}.event'::regclass::oid::integer);
    RETURN (SELECT coalesce(max(place), 0) FROM {s}.event);
END $$
"""

_PUT = """
CREATE FUNCTION {s}.put(
    p_version integer,
    p_head_run text[], p_head_seq bigint[], p_head_link text[],
    p_want_attempt text[], p_want_hold text[], p_want_after integer[], p_touched text[],
    p_run text[], p_seq bigint[], p_kind text[], p_link text[], p_body bytea[],
    p_digest text[], p_payload bytea[],
    p_untracked text[],
    p_attempt text[], p_of text[], p_state text[], p_hold text[], p_owner text[], p_lease double precision[],
    p_account text[], p_unit text[], p_level bigint[], p_until double precision[],
    p_was bigint[], p_was_until double precision[],
    p_past double precision, p_forget integer
) RETURNS text LANGUAGE plpgsql AS $$
-- One group of steps, all of it or nothing: null, or why not. It was decided against what the caller took to be true,
-- and that is checked here, within the transaction: heads of runs, holds, levels of accounts.
-- INVARIANT: whoever writes takes its locks in this order, and within each table by key, so nobody waits in a circle.
BEGIN
    IF NOT {s}.enter(p_version) THEN
        RETURN 'migrated';
    END IF;
    IF EXISTS (
        SELECT FROM unnest(p_head_run, p_head_seq, p_head_link) AS want (run, seq, link)
        LEFT JOIN LATERAL (
            SELECT e.seq, e.link FROM {s}.event e WHERE e.run = want.run ORDER BY e.seq DESC LIMIT 1
        ) AS found ON true
        WHERE coalesce(found.seq, 0) <> want.seq OR coalesce(found.link, '') <> want.link
    ) THEN
        RETURN 'moved';
    END IF;
    IF EXISTS (
        SELECT FROM unnest(p_want_attempt, p_want_hold, p_want_after) AS want (attempt, hold, after)
        JOIN {s}.attempt a ON a.hold = want.hold
        WHERE a.attempt <> want.attempt AND a.attempt <> ALL (p_touched[:want.after])
    ) THEN
        RETURN 'moved';
    END IF;
    FOR i IN 1 .. cardinality(p_account) LOOP
        IF p_was[i] IS NULL THEN
            INSERT INTO {s}.accounts (account, unit, level, until)
            VALUES (p_account[i], p_unit[i], p_level[i], p_until[i]);
        ELSE
            UPDATE {s}.accounts a SET level = p_level[i], until = p_until[i]
            WHERE a.account = p_account[i] AND a.unit = p_unit[i]
                AND a.level = p_was[i] AND a.until IS NOT DISTINCT FROM p_was_until[i];
            IF NOT FOUND THEN
                RAISE 'account moved' USING ERRCODE = 'serialization_failure';
            END IF;
        END IF;
    END LOOP;
    INSERT INTO {s}.event (run, seq, kind, link, body)
    SELECT * FROM unnest(p_run, p_seq, p_kind, p_link, p_body);
    IF cardinality(p_digest) > 0 THEN
        INSERT INTO {s}.payload (digest, body) SELECT * FROM unnest(p_digest, p_payload)
        ON CONFLICT (digest) DO NOTHING;
        DELETE FROM {s}.erased WHERE digest = ANY (p_digest);
    END IF;
    IF cardinality(p_untracked) > 0 THEN
        DELETE FROM {s}.attempt WHERE attempt = ANY (p_untracked);
    END IF;
    IF cardinality(p_attempt) > 0 THEN
        -- What gives up its hold gives it up before another takes it.
        UPDATE {s}.attempt a SET hold = NULL FROM unnest(p_attempt, p_hold) AS new (attempt, hold)
        WHERE a.attempt = new.attempt AND a.hold <> coalesce(new.hold, '');
        -- Their age is their order in the group, their locks are taken in the order of their holds.
        WITH aged AS MATERIALIZED (
            SELECT nextval('{s}.attempt_position_seq') AS position, new.*
            FROM unnest(p_attempt, p_of, p_state, p_hold, p_owner, p_lease)
                AS new (attempt, run, state, hold, owner, lease_until)
        )
        INSERT INTO {s}.attempt (position, attempt, run, state, hold, owner, lease_until)
        SELECT * FROM aged ORDER BY hold, attempt
        ON CONFLICT (attempt) DO UPDATE SET
            run = excluded.run, state = excluded.state, hold = excluded.hold,
            owner = excluded.owner, lease_until = excluded.lease_until;
    END IF;
    IF p_forget > 0 THEN
        DELETE FROM {s}.accounts WHERE ctid IN (
            SELECT ctid FROM {s}.accounts WHERE until <= p_past
            ORDER BY until, account, unit LIMIT p_forget FOR UPDATE SKIP LOCKED
        );
    END IF;
    RETURN NULL;
END $$
"""

_NAME = """
CREATE FUNCTION {s}.name(p_body bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT COST 10000 AS $$
-- The name of a question, out of the record by which it was asked; nothing where that record is damaged.
BEGIN
    RETURN convert_from(p_body, 'UTF8')::json #>> '{event,approval}';
EXCEPTION WHEN others THEN
    RETURN NULL;
END $$
"""

_CHURN = "fillfactor = 50, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_scale_factor = 0"

MIGRATIONS: Sequence[Migration] = (
    (
        "CREATE TABLE {s}.ledger (format text NOT NULL, version integer NOT NULL, salt bytea NOT NULL)",
        # One place at a time: a cache for each session would give a long-idle gateway places of long ago.
        """CREATE TABLE {s}.event (
            place bigint GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
            seq bigint NOT NULL,
            run text COLLATE "C" NOT NULL,
            kind text COLLATE "C" NOT NULL,
            link text COLLATE "C" NOT NULL,
            body bytea NOT NULL,
            UNIQUE (run, seq)
        )""",
        """CREATE INDEX event_rare ON {s}.event (kind, place)
            WHERE kind IN ('run.opened', 'approval.requested', 'approval.decided')""",
        'CREATE TABLE {s}.payload (digest text COLLATE "C" PRIMARY KEY, body bytea NOT NULL)',
        "ALTER TABLE {s}.payload ALTER COLUMN body SET STORAGE EXTERNAL",
        f"""CREATE TABLE {{s}}.attempt (
            position bigint NOT NULL,
            lease_until double precision NOT NULL,
            attempt text COLLATE "C" PRIMARY KEY,
            run text COLLATE "C" NOT NULL,
            state text COLLATE "C" NOT NULL,
            hold text COLLATE "C",
            owner text COLLATE "C" NOT NULL
        ) WITH ({_CHURN})""",
        "CREATE SEQUENCE {s}.attempt_position_seq OWNED BY {s}.attempt.position",
        "CREATE UNIQUE INDEX attempt_hold ON {s}.attempt (hold) WHERE hold IS NOT NULL",
        "CREATE INDEX attempt_state ON {s}.attempt (state)",
        "CREATE INDEX attempt_owner ON {s}.attempt (owner)",
        f"""CREATE TABLE {{s}}.accounts (
            level bigint NOT NULL,
            until double precision,
            account text COLLATE "C" NOT NULL,
            unit text COLLATE "C" NOT NULL,
            PRIMARY KEY (account, unit)
        ) WITH ({_CHURN})""",
        "CREATE INDEX accounts_end ON {s}.accounts (until, account, unit) WHERE until IS NOT NULL",
        """CREATE TABLE {s}.checkpoint (
            size bigint PRIMARY KEY,
            place bigint NOT NULL,
            at double precision NOT NULL,
            peaks text NOT NULL,
            note text NOT NULL
        )""",
        "CREATE TABLE {s}.touched (one boolean PRIMARY KEY CHECK (one), body bytea NOT NULL)",
        'CREATE TABLE {s}.erased (digest text COLLATE "C" PRIMARY KEY, at double precision NOT NULL)',
        _ENTER,
        _CLOSED,
        _PUT,
    ),
    (
        'CREATE TABLE {s}.said (until double precision NOT NULL, name text COLLATE "C" PRIMARY KEY)',
        "CREATE INDEX said_end ON {s}.said (until)",
    ),
    (
        _NAME,
        # An index on what the records say, and no table beside them: it can say nothing else than they do.
        f'CREATE INDEX event_named ON {{s}}.event (({{s}}.name(body)) COLLATE "C") WHERE {NAMED_SQL}',
        "DROP INDEX {s}.event_rare",
        f"CREATE INDEX event_rare ON {{s}}.event (kind, place) WHERE {RARE_SQL}",
    ),
    (
        """CREATE TABLE {s}.consent (
            version bigint NOT NULL,
            lease_until double precision NOT NULL,
            tenant text COLLATE "C" NOT NULL,
            principal text COLLATE "C" NOT NULL,
            upstream text COLLATE "C" NOT NULL,
            name text COLLATE "C" NOT NULL,
            owner text COLLATE "C" NOT NULL,
            sealed bytea NOT NULL,
            PRIMARY KEY (principal, tenant, upstream)
        )""",
    ),
)

VERSION = len(MIGRATIONS)
"""Of a ledger in PostgreSQL; its numbers are not those of SQLite's."""

FORMAT = "counterfoil ledger"
"""Stands in the table `ledger`: the schema is ours and nobody else's who also has such a table."""


LAYOUT = """
SELECT CASE relkind WHEN 'r' THEN 'table' ELSE 'index' END, relname::text,
    CASE WHEN relkind = 'r' THEN '' ELSE (
        SELECT concat_ws(' ', CASE WHEN indisunique THEN 'unique' END, CASE WHEN NOT indisvalid THEN 'not valid' END)
        FROM pg_index WHERE indexrelid = c.oid
    ) END
FROM pg_class c WHERE relnamespace = '{s}'::regnamespace AND relkind IN ('r', 'i')
UNION ALL SELECT 'function', proname::text, prosrc FROM pg_proc WHERE pronamespace = '{s}'::regnamespace
UNION ALL SELECT 'trigger', tgname::text, '' FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid
    WHERE relnamespace = '{s}'::regnamespace AND NOT tgisinternal
UNION ALL SELECT 'rule', rulename::text, '' FROM pg_rewrite JOIN pg_class c ON c.oid = ev_class
    WHERE relnamespace = '{s}'::regnamespace AND relkind = 'r'
"""
"""What stands in the schema: its kind, name, and what makes it itself."""

_TABLES = ("ledger", "event", "payload", "attempt", "accounts", "checkpoint", "touched", "erased", "said", "consent")
_KEYS = (*(f"{name}_pkey" for name in _TABLES if name != "ledger"), "event_run_seq_key", "attempt_hold")
_INDEXES = ("event_rare", "event_named", "attempt_state", "attempt_owner", "accounts_end", "said_end")


def made(schema: str) -> Mapping[tuple[str, str], str]:
    """What `LAYOUT` finds in a schema of this version, by kind and name."""
    functions = {"enter": _ENTER, "closed": _CLOSED, "put": _PUT, "name": _NAME}
    return {
        **{("table", name): "" for name in _TABLES},
        **{("index", name): "unique" for name in _KEYS},
        **{("index", name): "" for name in _INDEXES},
        **{("function", name): statements([sql], schema)[0].split("$$")[1] for name, sql in functions.items()},
    }


def strange(found: Mapping[tuple[str, str], str], schema: str) -> Sequence[str]:
    """How the schema in which this was found differs from a new one of this version; but for tables, views and indexes
    of other programs, which only take room.
    """
    mine = made(schema)
    gone = [f"the {kind} `{name}` is gone" for kind, name in mine if (kind, name) not in found]
    other = [f"the {one[0]} `{one[1]}` is another one" for one in mine if one in found and found[one] != mine[one]]
    return [*gone, *other, *(f"there is a {kind}, `{name}`" for kind, name in found if kind in {"trigger", "rule"})]


def statements(migration: Migration, schema: str) -> Sequence[str]:
    """The migration's statements for that schema."""
    return [one.replace("{s}", schema).replace("{key}", str(KEY)) for one in migration]
