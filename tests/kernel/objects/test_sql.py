import logging.config

import pytest

from gateway.kernel.conditions import BadCondition, compile_condition
from gateway.kernel.objects.sql import DIALECTS
from tests.kernel.objects import Judged, judged

PARSED = "the statement cannot be parsed"
DEEP = "the statement is nested too deeply, or cannot be parsed"
KIND = "the statement is of a kind that is not judged"
CALLS = "it calls a function that is not known to be harmless"
PART = "a part of the statement is not known to be harmless"
HINT = "the statement has a comment that the database may execute"
NEST = "the statement has a comment within a comment, or one that does not end"
DASHES = "the statement has `--` without a space behind it, which is a comment only to some"
QUOTE = "the statement has a backslash before a quote"
DOLLAR = "the statement has a quote of a rare kind"
HIDDEN = "the statement has characters that cannot be seen"
WORD = "a name in the statement is a word that begins another"


@pytest.mark.parametrize(
    ("dialect", "text", "expected"),
    [
        ("postgres", "select 1", True),
        ("postgres", "SELECT a, count(*) FROM t WHERE b = 1 GROUP BY a HAVING count(*) > 1 ORDER BY 2 LIMIT 5;", True),
        ("postgres", "select 1; select 2;", True),
        ("postgres", "-- what is there\nselect 1 /* or so */ -- end", True),
        ("postgres", "with a as (select 1) select * from a union all (select 2) order by 1", True),
        ("postgres", "values (1), (2)", True),
        ("postgres", "table t", True),
        ("postgres", "select x -> 'a' ->> 'b', x::text ~* 'c', now() - interval '1 day' from t", True),
        ("postgres", "select row_number() over (partition by a order by b) from t, lateral (select 1) l", True),
        ("postgres", "select jsonb_array_elements(x) from t where y @> '{}' and z = any(array[1,2])", True),
        ("postgres", "select 'drop table t; --' as x, \"delete\" from t", True),
        ("postgres", "select * from t where a = $1 and b like '%\\d'", True),
        ("mysql", "select ifnull(a, b), date_format(now(), '%Y'), group_concat(x) from `t` where a regexp 'b'", True),
        ("mysql", "select 1 # all", True),
        ("sqlite", "select strftime('%Y', d), julianday('now') from t", True),
        ("snowflake", "select iff(a, b, c), a:b.c::string from t qualify row_number() over (order by 1) = 1", True),
        ("bigquery", "select safe_divide(a, b), struct(1 as a) from `a.b.c` as t, unnest(t.x) as y", True),
        ("tsql", "select top 5 isnull([a], 0), getdate() from [dbo].[T] o with (nolock) where x = @p", True),
        ("oracle", "select nvl(a, b), sysdate, to_char(d, 'YYYY') from t where rownum < 5", True),
        ("postgres", "insert into t values (1)", False),
        ("postgres", "select 1; drop table t", False),
        ("postgres", "select 1;\n\n;delete from t", False),
        ("postgres", "with d as (delete from t returning *) select * from d", False),
        ("postgres", "with a as (with b as (update t set x = 1 returning x) select * from b) select * from a", False),
        ("postgres", "select * into o from t", False),
        ("tsql", "select * into #o from t", False),
        ("postgres", "select * from t for update", False),
        ("mysql", "select * from t lock in share mode", False),
        ("postgres", "select * from (select * from t for share) x", False),
        ("postgres", "create table a as select * from b", False),
        ("postgres", "truncate t", False),
        ("postgres", "alter table t add column x int", False),
        ("postgres", "merge into t using u on t.a = u.a when matched then delete", False),
        ("postgres", "select pg_terminate_backend(1)", CALLS),
        ("postgres", "select pg_sleep(10)", CALLS),
        ("postgres", "select lo_export(1, 'x')", CALLS),
        ("postgres", "select nextval('s')", CALLS),
        ("postgres", "select setval('s', 1)", CALLS),
        ("postgres", "select * from pg_read_file('/etc/passwd')", CALLS),
        ("postgres", "select * from dblink('x', 'delete from t')", CALLS),
        ("postgres", "select query_to_xml('delete from t', true, true, '')", CALLS),
        ("postgres", "select set_config('a', 'b', false)", CALLS),
        ("postgres", "select my.age(x) from t", CALLS),
        ("postgres", 'select "age"(x) from t', True),
        ("postgres", "select (select f(1))", CALLS),
        ("postgres", "select * from t order by f(x)", CALLS),
        ("postgres", "select 1 where exists (select 1 from t where f(x))", CALLS),
        ("mysql", "select load_file('/etc/passwd')", CALLS),
        ("mysql", "select get_lock('a', 10)", CALLS),
        ("mysql", "select benchmark(1000000, md5(1))", CALLS),
        ("sqlite", "select load_extension('x')", CALLS),
        ("sqlite", "select writefile('a', 'b')", CALLS),
        ("tsql", "select * from openrowset('a', 'b', 'c')", CALLS),
        ("snowflake", "select system$cancel_query('x')", CALLS),
        ("bigquery", "select * from external_query('x', 'delete from t')", CALLS),
        ("oracle", "select dbms_xmlgen.getxml('x') from dual", CALLS),
        ("oracle", "select utl_http.request('http://x') from dual", CALLS),
        ("oracle", "select s.nextval from dual", "the statement counts up a sequence"),
        ("mysql", "select @a := 1", PART),
        ("bigquery", "select * from ml.predict(model m, table t)", PART),
        ("snowflake", "select * from identifier('t')", PART),
        ("postgres", "call p()", KIND),
        ("postgres", "do 'begin end'", KIND),
        ("postgres", "explain analyze delete from t", KIND),
        ("postgres", "set role admin", KIND),
        ("postgres", "copy t to program 'sh'", KIND),
        ("postgres", "begin", KIND),
        ("postgres", "vacuum", KIND),
        ("postgres", "listen x", KIND),
        ("postgres", "lock table t", KIND),
        ("postgres", "grant all on t to x", KIND),
        ("postgres", "prepare p as delete from t", KIND),
        ("mysql", "kill 5", KIND),
        ("mysql", "load data infile 'x' into table t", PARSED),
        ("mysql", "replace into t values (1)", KIND),
        ("mysql", "show tables", KIND),
        ("sqlite", "pragma writable_schema = 1", KIND),
        ("sqlite", "attach 'x' as y", KIND),
        ("sqlite", "vacuum into 'x'", KIND),
        ("tsql", "exec sp_who", KIND),
        ("tsql", "use x", KIND),
        ("snowflake", "put file://x @y", KIND),
        ("mysql", "select 1 into outfile '/x'", PARSED),
        ("mysql", "handler t open", PARSED),
        ("postgres", "selec 1", PARSED),
        ("postgres", "select (", PARSED),
        ("postgres", "select 'a", PARSED),
        ("postgres", "drop", KIND),
        ("mysql", "select 1 /*!50000 union select password from mysql.user*/", HINT),
        ("mysql", "select 1 /*M! union select 2*/", HINT),
        ("mysql", "select /*+ set_var(x = 1) */ 1", HINT),
        ("oracle", "select --+ full(t)\n 1 from t", HINT),
        ("postgres", "select 1 /* /* */ ; drop table t -- */ */", NEST),
        ("mysql", "select 1 /* a", NEST),
        ("mysql", "select 1 --1 ; drop table t", DASHES),
        ("mysql", "select 1 --\u00a0\ndrop", HIDDEN),
        ("mysql", "select '\\'; drop table t; -- '", QUOTE),
        ("postgres", "select 'a\\'; drop table t; --'", QUOTE),
        ("mysql", 'select "\\"; drop table t; -- "', QUOTE),
        ("postgres", "select a$$ ; drop table t; select $$", DOLLAR),
        ("postgres", "select $x$ a $x$", DOLLAR),
        ("postgres", 'select * from U&"\\0075sers"', DOLLAR),
        ("postgres", "select u&'\\0041'", DOLLAR),
        ("oracle", "select q'[']' from dual", DOLLAR),
        ("postgres", "select 1 -- a\r; drop table t", HIDDEN),
        ("postgres", "select 1 -- a\r\n, 2", True),
        ("tsql", "select * from t with (tablockx)", PART),
        ("tsql", "select next value for s", PART),
        ("mysql", "select 1 into dumpfile '/x'", PARSED),
        ("mysql", "select 1 into @x", False),
        ("sqlite", "select * from pragma_table_info('t')", CALLS),
        ("postgres", "select 1\u200b", HIDDEN),
        ("postgres", "select\u00a01", HIDDEN),
        ("postgres", "select 1\u2028; drop table t", HIDDEN),
        ("tsql", "select * from t shutdown", WORD),
        ("tsql", "select * from t exec('drop table x')", WORD),
        ("tsql", "select 1 commit", WORD),
        ("tsql", "select * from t [shutdown]", True),
        ("tsql", "select 1 a delete from t", PARSED),
        ("tsql", "select 1 select 2", PARSED),
        ("postgres", "", "there is no statement"),
        ("postgres", " ; ;; -- nothing", "there is no statement"),
        ("postgres", "select " + "array[" * 20 + "1" + "]" * 20, "the statement takes too long to parse"),
        ("postgres", "select " + "(" * 49 + "1" + ")" * 49, DEEP),
        ("postgres", "select " + "- " * 8000 + "1", DEEP),
        ("postgres", "select " + "1" * 17_000, "the statement is longer than 16384 characters"),
        ("postgres", 7, "`sql.reads_only` cannot take an integer and a string"),
    ],
)
def test_a_statement_reads_only_if_all_of_it_is_known_to(dialect: str, text: object, expected: Judged) -> None:
    assert judged(f'sql.reads_only(args.a, "{dialect}")', text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1; insert into t select * from u; select 2", ["select", "insert"]),
        ("with d as (delete from t returning *) insert into u select * from d", ["insert", "delete"]),
        ("merge into t using u on t.a = u.a when not matched then insert (a) values (1)", ["merge", "insert"]),
        ("create view v as select * from t", ["create"]),
        ("drop table t", ["drop"]),
        ("select * into o from t for update", ["select", "into", "lock"]),
    ],
)
def test_all_kinds_are_told(text: str, expected: list[str]) -> None:
    assert judged('sql.kinds(args.a, "postgres") == args.b', text, expected) is True


ODD_TABLE = "a table is named in a way that is not judged"
WHICH = "which tables the statement names is not judged"


@pytest.mark.parametrize(
    ("dialect", "text", "expected"),
    [
        ("postgres", "select 1", []),
        ("postgres", "select * from Users u join app.Orders o on true, users", ["users", "app.orders"]),
        ("postgres", 'select * from "App"."Users"', ["app.users"]),
        ("postgres", "select (select max(x) from a), * from b where c in (select 1 from d)", ["a", "b", "d"]),
        ("postgres", "with users as (select 1) select * from users", []),
        ("postgres", "with users as (select * from users) select * from users", ["users"]),
        ("postgres", "with users as (select 1) select * from app.users", ["app.users"]),
        ("postgres", "with recursive r as (select 1 union select * from r) select * from r", []),
        ("postgres", "with a as (select 1), b as (select * from a) select * from b", []),
        ("postgres", "with a as (select * from b), b as (select 1) select * from a", ["b"]),
        ("postgres", "select * from u where id in (with u as (select 1 id) select id from u)", ["u"]),
        ("postgres", "select 1; delete from t using u where t.a = u.a", ["t", "u"]),
        ("postgres", "insert into t (a) select b from u", ["t", "u"]),
        ("postgres", "with t as (select 1) insert into t values (1)", ["t"]),
        ("postgres", "with t as (select 1) insert into t (a) select * from t", ["t"]),
        ("postgres", "with t as (select 1) update t set a = 1 where b = 2", ["t"]),
        ("postgres", "with t as (select 1) delete from t where b = 2", ["t"]),
        ("postgres", "with t as (select 1) select * into t from u", ["t", "u"]),
        ("postgres", "update t set a = (select 1 from v) from u", ["t", "v", "u"]),
        ("postgres", "create table a as select * from b", ["a", "b"]),
        ("postgres", "drop table a, b", ["a", "b"]),
        ("postgres", "truncate a, b", ["a", "b"]),
        ("postgres", "select * from generate_series(1, 2) g, unnest(array[1]) u", []),
        ("postgres", "select * from only t", ["t"]),
        ("bigquery", "select * from `p-x.d.t`, p.d.u", ["p-x.d.t", "p.d.u"]),
        ("bigquery", "select * from p.d.INFORMATION_SCHEMA.TABLES", ["p.d.information_schema.tables"]),
        ("snowflake", "select * from a.b.c", ["a.b.c"]),
        ("tsql", "select * from [a].[dbo].[T]", ["a.dbo.t"]),
        ("postgres", 'select * from "a.b"', ODD_TABLE),
        ("databricks", "select * from csv.`/etc/passwd`", ODD_TABLE),
        ("tsql", "select * from @t", ODD_TABLE),
        ("snowflake", "select * from @stage/x", ODD_TABLE),
        ("postgres", "create function f() returns int as 'delete from t' language sql", WHICH),
        ("postgres", "drop schema s", WHICH),
    ],
)
def test_all_tables_are_told_and_never_too_few(dialect: str, text: str, expected: list[str] | str) -> None:
    if isinstance(expected, str):
        assert judged(f'size(sql.tables(args.a, "{dialect}")) == 0', text) == expected
    else:
        assert judged(f'sql.tables(args.a, "{dialect}") == args.b', text, sorted(expected)) is True


NO_NUMBER = "a limit of the statement is no number"


@pytest.mark.parametrize(
    ("dialect", "text", "expected"),
    [
        ("postgres", "select * from t limit 5", True),
        ("postgres", "select * from t limit (5) offset 1", True),
        ("postgres", "select * from t fetch first 5 rows only", True),
        ("postgres", "select 1 union select 2 limit 3", True),
        ("postgres", "(select 1) limit 4", True),
        ("tsql", "select top 5 * from t", True),
        ("postgres", "with a as (select * from t) select * from a limit 1; select 1 limit 1", True),
        ("postgres", "select * from t", False),
        ("postgres", "select * from (select * from t limit 1) x", False),
        ("postgres", "select 1 limit 1; select 1", False),
        ("postgres", "select * from t limit all", False),
        ("postgres", "select * from t limit null", False),
        ("postgres", "select * from t fetch first 5 rows with ties", False),
        ("tsql", "select top 10 percent * from t", False),
        ("postgres", "delete from t", False),
        ("postgres", "values (1)", False),
        ("postgres", "select * from t limit $1", NO_NUMBER),
        ("postgres", "select * from t limit 1 + 1", NO_NUMBER),
        ("postgres", "select * from t limit '5'", NO_NUMBER),
        ("postgres", "select * from t limit 1e9", False),
    ],
)
def test_a_query_is_bounded_by_a_plain_number(dialect: str, text: str, expected: Judged) -> None:
    assert judged(f'sql.bounded(args.a, "{dialect}")', text) == expected


ROWS = "which rows the statement changes is not judged"
SIMPLE = "a condition of the statement is not of a simple kind"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select * from t", True),
        ("insert into t values (1)", True),
        ("update t set a = 1 where id = 5", True),
        ("delete from t where 5 < id", True),
        ("delete from t where id = $1", True),
        ("delete from t where id in (1, 2)", True),
        ("delete from t where id between 1 and 2", True),
        ("delete from t where (id = 1 or id = 2) and true", True),
        ("delete from t using u where t.a = u.a", True),
        ("delete from t where a = 0" + " or a = 1" * 900, True),
        ("delete from t", False),
        ("update t set a = 1", False),
        ("delete from t where true", False),
        ("delete from t where 1 = 1", False),
        ("delete from t where id = 1 or 1 = 1", False),
        ("delete from t where id = 1 or (true and 'a' = 'a')", False),
        ("delete from t where id = 1; delete from u", False),
        ("with d as (delete from t returning *) select * from d where a = 1", False),
        ("truncate t", False),
        ("delete from t where id = id", SIMPLE),
        ("delete from t where t.id = id", SIMPLE),
        ("delete from t where t.id = T.ID", SIMPLE),
        ("delete from t where 1 = 1 and id = id", SIMPLE),
        ("delete from t where id in (id)", SIMPLE),
        ("delete from t where not id = 1", SIMPLE),
        ("delete from t where id is not null", SIMPLE),
        ("delete from t where id <> 5", SIMPLE),
        ("delete from t where id in (select id from t)", SIMPLE),
        ("delete from t where exists (select 1)", SIMPLE),
        ("delete from t where id = id + 0", SIMPLE),
        ("delete from t where id = -(-id)", SIMPLE),
        ("delete from t where id = cast(id as int)", SIMPLE),
        ("delete from t where cast(id as int) = id", SIMPLE),
        ("delete from t where id in (cast(id as int))", SIMPLE),
        ("delete from t where id between -(-id) and -(-id)", SIMPLE),
        ("delete from t where id = cast('5' as int) or id = -5", True),
        ("delete from t where id = 1 or id = id", SIMPLE),
        ("delete from t where coalesce(id, 1) = 1", SIMPLE),
        ("merge into t using u on t.a = u.a when matched then update set a = 1", ROWS),
        ("drop table t", ROWS),
    ],
)
def test_what_changes_rows_says_which(text: str, expected: Judged) -> None:
    assert judged('sql.filtered(args.a, "postgres")', text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("delete from t where \"x\" = 'x'", "a name in quotes may be a text"),
        ("update t set a = 1 where [x] = 'x'", "a name in quotes may be a text"),
        ('delete from t where t."id" = 5', True),
        ("delete from t where id = 5", True),
        ('insert into t ("a") values (1)', True),
        ("delete from t", False),
    ],
)
def test_a_name_that_sqlite_may_take_for_a_text_picks_no_rows(text: str, expected: Judged) -> None:
    assert judged('sql.filtered(args.a, "sqlite")', text) == expected


@pytest.mark.parametrize("text", ["select 1 in t", "select 1 not in main.t", "select (1, 2) in main.'t'"])
def test_a_table_that_sqlite_reads_by_in_is_not_passed_over(text: str) -> None:
    for question in ('sql.reads_only(args.a, "sqlite")', 'size(sql.tables(args.a, "sqlite")) == 0'):
        assert judged(question, text) == "what stands behind `in` may be a table"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_reads_and_tells_writing(dialect: str) -> None:
    assert judged(f'sql.reads_only(args.a, "{dialect}")', "select a from t where b = 'c'") is True
    assert judged(f'sql.kinds(args.a, "{dialect}") == ["delete"]', "delete from t where a = 1") is True


def test_a_dialect_is_a_constant_that_is_known() -> None:
    with pytest.raises(BadCondition) as unknown:
        compile_condition('sql.reads_only(args.q, "postgers")', "transition")
    assert (unknown.value.line, unknown.value.column) == (1, 24)
    assert unknown.value.message == f"there is no SQL dialect `postgers` here; there is {', '.join(DIALECTS)}"
    with pytest.raises(BadCondition) as asked:
        compile_condition("sql.reads_only(args.q, args.d)", "transition")
    assert asked.value.message == (
        "`sql.reads_only` wants a constant here, which can be checked when the policy is loaded"
    )


def test_a_statement_that_is_not_understood_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    question = 'sql.reads_only(args.a, "postgres")'
    assert judged(question, "call secret('hunter2')") == KIND
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False})
    assert judged(question, "call secret('hunter3')") == KIND
    assert not caplog.records
