"""All that is asked of the server beside `put`, for one schema."""

from dataclasses import dataclass

from gateway.outbound.ledger.consents import COLUMNS as CONSENT
from gateway.outbound.ledger.postgres.schema import LAYOUT, NAMED_SQL, RARE_SQL

_COLUMNS = "attempt, run, state, hold, owner, lease_until"
_STANDINGS = """
SELECT a.account, a.unit, a.level, a.until
FROM unnest($1::text[], $2::text[]) AS want (account, unit)
JOIN {s}.accounts a ON a.account = want.account COLLATE "C" AND a.unit = want.unit COLLATE "C"
"""
# Each rare kind gives its own newest, and the newest of those are taken.
_RARE = f"""
SELECT found.body, found.link FROM unnest($1::text[]) AS want (kind)
CROSS JOIN LATERAL (
    SELECT place, body, link FROM {{s}}.event
    WHERE kind = want.kind COLLATE "C" AND {RARE_SQL} {{before}} ORDER BY place DESC LIMIT $2
) AS found
ORDER BY found.place DESC LIMIT $2
"""
_FIND = "SELECT body, link FROM {s}.event WHERE kind = ANY ($1::text[]) {before} ORDER BY place DESC LIMIT $2"
_HELD_BY = "tenant = $1 AND principal = $2 AND upstream = $3"
_PUT_ARGUMENTS = ", ".join(f"${number}" for number in range(1, 31))


@dataclass(frozen=True, slots=True)
class Statements:
    """SQL for one schema, whose name needs no quotes."""

    enter: str
    put: str
    witness: str
    lock_events: str
    levels: str
    lock_levels: str
    heads: str
    holders: str
    claim: str
    renew: str
    lock_checkpoints: str
    checkpoint: str
    erase: str
    since: str
    touch: str
    store: str
    once: str
    said: str
    read: str
    find_rare: str
    find_rare_before: str
    find: str
    find_before: str
    place: str
    named: str
    payload: str
    levels_of: str
    accounts: str
    tracked: str
    tracked_in: str
    log: str
    strange: str
    links: str
    closed: str
    checkpoints: str
    payloads: str
    erased: str
    consent: str
    consents: str
    add_consent: str
    change_consent: str
    claim_consent: str
    drop_consent: str
    consents_held: str


def statements(schema: str) -> Statements:
    """The statements for that schema."""
    return Statements(**{name: sql.replace("{s}", schema) for name, sql in _SQL.items()})


_SQL = {
    "enter": "SELECT {s}.enter($1)",
    "put": f"SELECT {{s}}.put({_PUT_ARGUMENTS})",
    "witness": "SELECT link FROM {s}.event WHERE run = $1 AND seq = $2",
    "lock_events": "LOCK TABLE {s}.event IN SHARE ROW EXCLUSIVE MODE",
    "levels": _STANDINGS,
    "lock_levels": f"{_STANDINGS} ORDER BY a.account, a.unit FOR UPDATE OF a",
    "heads": """
        SELECT want.run, found.seq, found.link FROM unnest($1::text[]) AS want (run)
        JOIN LATERAL (
            SELECT e.seq, e.link FROM {s}.event e WHERE e.run = want.run COLLATE "C" ORDER BY e.seq DESC LIMIT 1
        ) AS found ON true
    """,
    "holders": f"SELECT {_COLUMNS} FROM {{s}}.attempt WHERE hold = ANY ($1::text[])",
    "claim": """
        UPDATE {s}.attempt SET owner = $1, lease_until = $2
        WHERE attempt = $3 AND owner = $4 AND lease_until = $5 AND state = $6
    """,
    # In the order of their keys, as everybody takes them.
    "renew": """
        UPDATE {s}.attempt SET lease_until = $1 WHERE attempt = ANY (ARRAY(
            SELECT attempt FROM {s}.attempt WHERE attempt = ANY ($3::text[]) AND owner = $2 AND lease_until > 0
            ORDER BY attempt FOR UPDATE
        ))
    """,
    # Of two checkpoints at the same time the smaller must see the larger.
    "lock_checkpoints": "LOCK TABLE {s}.checkpoint IN SHARE ROW EXCLUSIVE MODE",
    "checkpoint": """
        INSERT INTO {s}.checkpoint (size, place, peaks, at, note) SELECT $1, $2, $3, $4, $5
        WHERE NOT EXISTS (SELECT FROM {s}.checkpoint WHERE size >= $1)
    """,
    "erase": """
        WITH gone AS (DELETE FROM {s}.payload WHERE digest = ANY ($1::text[]) RETURNING digest)
        INSERT INTO {s}.erased (digest, at) SELECT digest, $2 FROM gone
        ON CONFLICT (digest) DO UPDATE SET at = excluded.at
    """,
    "since": "SELECT body FROM {s}.event WHERE place > $1",
    # Refused by a server that takes no writes.
    "touch": "SELECT FROM {s}.ledger FOR KEY SHARE",
    "store": """
        INSERT INTO {s}.touched (one, body) VALUES (true, $1) ON CONFLICT (one) DO UPDATE SET body = excluded.body
    """,
    # Of two at the same time one waits for the other, and then finds the name there.
    "once": """
        WITH gone AS (
            DELETE FROM {s}.said WHERE name IN (
                SELECT name FROM {s}.said WHERE until <= extract(epoch FROM clock_timestamp()) - $3
                ORDER BY until LIMIT $4 FOR UPDATE SKIP LOCKED
            )
        )
        INSERT INTO {s}.said (name, until) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING
    """,
    "said": "SELECT FROM {s}.said WHERE name = $1",
    "read": "SELECT body, link FROM {s}.event WHERE run = $1 AND seq > $2 ORDER BY seq LIMIT $3",
    "find_rare": _RARE.replace("{before}", ""),
    "find_rare_before": _RARE.replace("{before}", "AND place < $3"),
    "find": _FIND.replace("{before}", ""),
    "find_before": _FIND.replace("{before}", "AND place < $3"),
    "place": "SELECT place FROM {s}.event WHERE run = $1 AND seq = $2",
    "named": f"""
        SELECT body, link FROM {{s}}.event WHERE {NAMED_SQL} AND {{s}}.name(body) COLLATE "C" = ANY ($1::text[])
    """,
    "payload": "SELECT body FROM {s}.payload WHERE digest = $1",
    "levels_of": "SELECT account, unit, level FROM {s}.accounts WHERE account = ANY ($1::text[])",
    "accounts": """
        SELECT account, unit, level, until FROM {s}.accounts WHERE (account, unit) > ($1::text, $2::text)
        ORDER BY account, unit LIMIT $3
    """,
    "tracked": f"SELECT {_COLUMNS} FROM {{s}}.attempt ORDER BY position",
    "tracked_in": f"SELECT {_COLUMNS} FROM {{s}}.attempt WHERE state = ANY ($1::text[]) ORDER BY position",
    "log": "SELECT place, run, seq, kind, link, body FROM {s}.event WHERE place > $1 ORDER BY place LIMIT $2",
    "strange": LAYOUT,
    "links": "SELECT place, link FROM {s}.event WHERE place > $1 ORDER BY place LIMIT $2",
    "closed": "SELECT {s}.closed()",
    "checkpoints": "SELECT size, place, peaks, at, note FROM {s}.checkpoint ORDER BY size DESC LIMIT $1",
    "payloads": "SELECT digest, body FROM {s}.payload WHERE digest > $1 ORDER BY digest LIMIT $2",
    "erased": "SELECT digest, at FROM {s}.erased WHERE digest = ANY ($1::text[])",
    "consent": f"SELECT {CONSENT} FROM {{s}}.consent WHERE {_HELD_BY}",
    "consents": """
        SELECT c.tenant, c.principal, c.upstream, c.name, c.version
        FROM unnest($1::text[], $2::text[], $3::text[]) AS want (tenant, principal, upstream)
        JOIN {s}.consent c ON c.tenant = want.tenant COLLATE "C" AND c.principal = want.principal COLLATE "C"
            AND c.upstream = want.upstream COLLATE "C"
    """,
    "add_consent": f"""
        INSERT INTO {{s}}.consent ({CONSENT}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING
    """,
    "change_consent": f"""
        UPDATE {{s}}.consent SET name = $4, version = $5, sealed = $6, owner = $7, lease_until = $8
        WHERE {_HELD_BY} AND name = $9 AND version = $10
    """,
    "claim_consent": f"""
        UPDATE {{s}}.consent SET owner = $4, lease_until = $5
        WHERE {_HELD_BY} AND name = $6 AND version = $7 AND owner = $8 AND lease_until = $9
    """,
    "drop_consent": f"DELETE FROM {{s}}.consent WHERE {_HELD_BY} RETURNING {CONSENT}",
    "consents_held": """
        SELECT tenant, principal, upstream FROM {s}.consent
        WHERE principal = $1 AND ($2::text IS NULL OR tenant = $2::text)
    """,
}
