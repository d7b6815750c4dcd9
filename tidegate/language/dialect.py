"""Text to syntax trees: Spark SQL plus the statements and windows of SPEC section 10, on sqlglot.

The parser only says what was written. What it means, and whether it makes sense, is the binder's part.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidegate.errors import Diagnostic, Kind, did_you_mean, position_at
from tidegate.language import syntax
from tidegate.language.arguments import FEWEST, MOST, TOO_MANY, all_there, at_most, distinct_first
from tidegate.language.durations import parse_duration
from tidegate.language.file_items import parse_described, parse_file
from tidegate.language.generation import StreamGenerator
from tidegate.language.limits import LARGEST, check_length, checked
from tidegate.language.quality_syntax import parse_priority, parse_size, parse_stream_quality, refuse_range
from tidegate.language.quarantine_items import parse_quarantine
from tidegate.language.row_patterns import refuse_row_pattern, with_calls_of_window
from tidegate.language.sequences import FORMS, parse_sequence, parse_start
from tidegate.language.show_syntax import parse_show
from tidegate.language.sync_syntax import parse_clock, parse_modify, parse_sync
from tidegate.language.window_functions import parse_window_function

STATEMENTS = (
    "SELECT", "WITH", "CREATE", "REGISTER", "DROP", "INSERT", "EXPLAIN", "PREVIEW", "VERIFY", "SHOW", "DESCRIBE",
    "ISTREAM", "DSTREAM", "RSTREAM", "SET", "START", "STOP", "ALTER",
)  # fmt: skip
CHANGES = ("UPDATE", "DELETE", "MERGE", "TRUNCATE")
CLAUSES = (
    "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "JOIN", "WINDOW",
)  # fmt: skip


_TWO_ARGUMENTS = (
    "QUANTILE", "ARG_MIN", "ARG_MAX", "MIN_BY", "MAX_BY", "CORR", "COVAR_POP", "COVAR_SAMP",
)  # fmt: skip


class _SyntaxError(ParseError):
    """A parse error that knows the offsets of the token it stopped at (backtracking may still catch it)."""

    def __init__(self, message: str, start: int, end: int, help: str | None, condition: str) -> None:
        super().__init__(message)
        self.message, self.span, self.help, self.condition = message, (start, end), help, condition


class _Tokenizer(Spark.Tokenizer):
    # sqlglot would take the rest of these statements as opaque text.
    COMMANDS: ClassVar[set[TokenType]] = set()
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        k: v for k, v in Spark.Tokenizer.KEYWORDS.items() if v not in Spark.Tokenizer.COMMANDS
    }


class _Parser(Spark.Parser):  # type: ignore[misc,valid-type]
    JOINS_HAVE_EQUAL_PRECEDENCE = False  # a comma binds weaker than JOIN, as in Spark's own grammar
    OPERATION_MODIFIERS: ClassVar[set[str]] = {"STREAMED", "COMPLETE"}
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
        **Spark.Parser.FUNCTIONS,
        **{name: distinct_first(Spark.Parser.FUNCTIONS[name]) for name in _TWO_ARGUMENTS},
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        **Spark.Parser.FUNCTION_PARSERS,
        **{name: at_most(most, Spark.Parser.FUNCTION_PARSERS[name]) for name, most in MOST.items()},
    }
    STATEMENT_PARSERS: ClassVar[dict[TokenType, Callable[[Any], Any]]] = {
        **Spark.Parser.STATEMENT_PARSERS,
        TokenType.CREATE: lambda self: self._parse_create_statement(),
        TokenType.DROP: lambda self: self._parse_drop_statement(),
        TokenType.INSERT: lambda self: self._parse_insert_statement(),
        TokenType.DESCRIBE: lambda self: self._parse_describe_statement(),
        TokenType.SET: lambda self: self._parse_set_statement(),
    }

    # errors ---------------------------------------------------------------------------------------------

    def raise_error(self, message: str, token: Token | None = None) -> None:
        at = token or self._curr
        if not at or at.token_type == TokenType.SENTINEL:
            at = self._prev
            start = end = (at.end + 1) if at else 0
            found = "end of the statement"
        else:
            start, end, found = at.start, at.end + 1, f"'{at.text}'"
        help = None
        if message.startswith(("Invalid expression", "Expected table name", "Expected expression")):
            message, help = f"unexpected {found}", self._misspelt_clause()
        elif message.startswith("The number of provided arguments"):
            message = "too many arguments"
        elif message.startswith("Required keyword"):
            message = f"something is missing before {found}"
        elif message.startswith("Expecting"):
            message = f"expected{message.removeprefix('Expecting')}, found {found}"
        self._stop(message.split(" <Token")[0], start, end, help)

    def validate_expression(self, expression: Any, args: list[Any] | None = None) -> Any:
        if args and not all_there(expression, args):
            self.raise_error(TOO_MANY)
        if args and len(args) < FEWEST.get(type(expression), 0):
            self.raise_error("Required keyword")
        return super().validate_expression(expression, args)

    def _misspelt_clause(self) -> str | None:
        """A misspelt keyword reads as an alias, and the error shows one word later."""
        if self._curr and self._curr.token_type == TokenType.WINDOW:
            return "windows have no names: write WINDOW(…) behind the stream, or OVER (PARTITION BY … ORDER BY …) out"
        if "PREVIEW" in (t.text.upper() for t in (self._prev, self._curr) if t):
            return "PREVIEW stands before the query: PREVIEW 5 SELECT …"
        near = get_close_matches(self._prev.text.upper(), CLAUSES, n=1, cutoff=0.7) if self._prev else []
        return f"did you mean '{near[0]}' instead of '{self._prev.text}'?" if near else None

    def _stop(
        self, message: str, start: int, end: int, help: str | None = None, condition: str = "SYNTAX_ERROR"
    ) -> None:
        raise _SyntaxError(message[:1].lower() + message[1:], start, end, help, condition)

    def _here(self) -> tuple[int, int]:
        if self._curr and self._curr.token_type != TokenType.SENTINEL:
            return self._curr.start, self._curr.end + 1
        end = self._prev.end + 1 if self._prev else 0
        return end, end

    def _expect(self, *words: str) -> None:
        if not self._match_text_seq(*words):
            self._stop(f"expected {' '.join(words)}{self._but_found()}", *self._here())

    def _but_found(self) -> str:
        if self._curr and self._curr.token_type != TokenType.SENTINEL:
            return f", found '{self._curr.text}'"
        return ", found the end of the statement"

    def _expect_name(self, what: str) -> exp.Identifier:
        name = self._parse_id_var(any_token=False)
        if not isinstance(name, exp.Identifier) or not name.name:
            self._stop(f"expected {what}{self._but_found()}", *self._here())
        assert isinstance(name, exp.Identifier)
        return name

    def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
        items: list[Any] = super()._parse_csv(parse_method, sep=sep)
        self.listed = len(items)
        if items and self._prev and self._prev.token_type == sep:
            self._stop(f"something is missing after '{self._prev.text}'", *self._here())
        return items

    # statements -----------------------------------------------------------------------------------------

    def _parse_statement(self) -> exp.Expression | None:
        if not self._curr or self._curr.token_type == TokenType.SENTINEL:
            return None
        nested = self._prev and self._prev.token_type != TokenType.SENTINEL
        first = self._curr
        word = first.text.upper()
        if not nested and word not in STATEMENTS and first.token_type not in (
            TokenType.L_PAREN, TokenType.SEMICOLON,
        ):  # fmt: skip
            at = (first.start, first.end + 1)
            if word in CHANGES:
                help = "rows come and go with their sources; a definition is replaced by CREATE OR REPLACE"
                self._stop(f"rows and definitions are not changed by {word}", *at, help, "UNSUPPORTED")
            help = did_you_mean(word, list(STATEMENTS), "statements")
            self._stop(f"a statement cannot start with '{first.text}'", *at, help)
        if self._match_text_seq("REGISTER"):
            self._expect("SOURCE")
            return self._parse_base("SOURCE", replace=False)
        if self._match_text_seq("SHOW"):
            return parse_show(self)
        if self._match_text_seq("START"):
            return self._parse_start_query()
        if self._match_text_seq("ALTER"):
            return self._parse_alter_query((first.start, first.end + 1))
        if self._match_text_seq("STOP"):
            return syntax.StopQuery(this=self._expect_name("the name of a query"))
        if self._match_text_seq("EXPLAIN"):
            analyze = bool(self._match_text_seq("ANALYZE"))
            return syntax.Explain(analyze=analyze, query=self._parse_query())
        if self._match_text_seq("PREVIEW"):
            return syntax.Preview(rows=self._parse_whole("how many rows"), query=self._parse_query())
        if self._match_text_seq("VERIFY"):
            instants = self._parse_whole("how many instants")
            if instants is not None:
                self._expect("INSTANTS")
            return syntax.Verify(query=self._parse_query(), instants=instants)
        if self._is_relation_to_stream() or first.token_type == TokenType.L_PAREN:
            statement: exp.Expression = self._parse_query()
        else:
            statement = super()._parse_statement()
        if self._match_text_seq("AS", "OF"):
            instant = self._parse_bitwise()
            if instant is None:
                self._stop(f"expected an instant after AS OF{self._but_found()}", *self._here())
            batch = None
            if self._match_text_seq("BATCH"):
                at = self._here()
                batch = self._parse_whole("the number of a batch")
                if batch is None:
                    self._stop(f"expected the number of a batch{self._but_found()}", *at)
            return syntax.AsOf(query=statement, instant=instant, batch=batch)
        return statement

    def _parse_start_query(self) -> exp.Expression:
        name = self._expect_name("a name for the query")
        history = bool(self._match_text_seq("WITH", "HISTORY"))
        self._expect("AS")
        inserts = self._match_text_seq("INSERT")
        query = self._parse_insert_statement() if inserts else self._parse_query()
        if inserts and query.this is not None:
            at = query.this.meta
            self._stop(f"the query is named '{name.name}' already", at["start"], at["end"] + 1)
        return syntax.StartQuery(this=name, query=query, history=history)

    def _parse_alter_query(self, at: tuple[int, int]) -> exp.Expression:
        if not self._match_text_seq("QUERY"):
            help = "ALTER QUERY name AS SELECT … changes a running query; a definition is replaced by CREATE OR REPLACE"
            self._stop("rows and definitions are not changed by ALTER", *at, help, "UNSUPPORTED")
        name = self._expect_name("the name of a query")
        self._expect("AS")
        return syntax.AlterQuery(this=name, query=self._parse_query())

    def _parse_whole(self, what: str) -> exp.Expression | None:
        at, number = self._here(), self._parse_number()
        if number is not None and not (number.name.isdigit() and int(number.name) < LARGEST):
            self._stop(f"{what} must be a whole number below {LARGEST:,}", *at)
        return number  # type: ignore[no-any-return]

    def _parse_query(self) -> exp.Expression:
        start = self._here()
        query = self._parse_select(nested=True, parse_subquery_alias=False)
        query = self._parse_query_modifiers(self._parse_set_operations(query)) if query else None
        if query is None:
            self._stop(f"expected a query{self._but_found()}", *start, help="a query starts with SELECT")
        assert query is not None
        return query  # type: ignore[no-any-return]

    def _parse_create_statement(self) -> exp.Expression:
        replace = bool(self._match_text_seq("OR", "REPLACE"))
        streamed = bool(self._match_text_seq("STREAMED"))
        if self._match_text_seq("VIEW"):
            return self._parse_view("VIEW", replace, streamed)
        if not streamed and self._match_text_seq("TABLE"):
            return self._parse_base("TABLE", replace)
        if not streamed and self._match_text_seq("STREAM"):
            return self._parse_base("STREAM", replace)
        self._stop(
            f"expected STREAM, VIEW or TABLE{self._but_found()}",
            *self._here(),
            help="CREATE STREAM … SOURCE …, CREATE STREAM … AS, CREATE [STREAMED] VIEW … AS, CREATE TABLE … FROM …",
        )
        raise AssertionError

    def _parse_view(self, kind: str, replace: bool, streamed: bool = False) -> exp.Expression:
        name = self._expect_name("a name")
        columns = self._parse_wrapped_csv(lambda: self._expect_name("a column"), optional=False) if (
            self._match(TokenType.L_PAREN, advance=False)
        ) else None  # fmt: skip
        self._expect("AS")
        query = self._parse_query()
        return syntax.CreateView(
            kind=kind, this=name, columns=columns, query=query, replace=replace, streamed=streamed
        )

    def _parse_base(self, kind: str, replace: bool) -> exp.Expression:
        name = self._expect_name("a name")
        if kind == "STREAM" and self._match_text_seq("AS"):
            return syntax.CreateView(kind=kind, this=name, query=self._parse_query(), replace=replace)
        if kind == "STREAM" and self._match_text_seq("OVER"):
            return syntax.CreateView(kind=kind, this=name, query=parse_modify(self), replace=replace)
        words = {"STREAM": ("SOURCE",), "TABLE": ("FROM", "SOURCE"), "SOURCE": ("FROM", "SOURCE")}[kind]
        columns = None
        if self._match(TokenType.L_PAREN, advance=False):
            columns = self._parse_wrapped_csv(self._parse_declared_column)
        elif not any(self._match_text_seq(w, advance=False) for w in words):
            help = "CREATE STREAM name(column TYPE, …) SOURCE … or CREATE STREAM name AS SELECT …"
            self._stop(
                f"expected columns in parentheses, or {words[0]}{self._but_found()}", *self._here(), help
            )
        if not any(self._match_text_seq(w) for w in words):
            self._stop(f"expected {words[0]}{self._but_found()}", *self._here())
        source = self._parse_call("a source, as csv('file.csv')")
        times = self._parse_times()
        quality = parse_stream_quality(self) if kind == "STREAM" else {}
        stops = self._parse_on_error()
        options = [*(stops or []), *(self._parse_options() or [])] or None
        return syntax.CreateBase(
            kind=kind, this=name, columns=columns, source=source, options=options, replace=replace,
            **times, **quality,
        )  # fmt: skip

    def _parse_on_error(self) -> list[exp.Expression] | None:
        """`ON ERROR STOP` or `ON ERROR QUARANTINE`, which is the option `on_error`."""
        if not self._match_text_seq("ON", "ERROR"):
            return None
        at = self._here()
        said = self._expect_name("STOP or QUARANTINE")
        if said.name.upper() not in ("STOP", "QUARANTINE"):
            self._stop(f"expected STOP or QUARANTINE, found '{said.name}'", *at)
        value = exp.Literal.string(said.name.lower())
        value.meta.update(said.meta)
        key = exp.to_identifier("on_error")
        key.meta.update(said.meta)
        return [exp.EQ(this=key, expression=value)]

    def _parse_times(self) -> dict[str, Any]:
        """`ORDERED BY t [BATCH b]`, `VALID (from, to)`, or nothing."""
        times: dict[str, Any] = {}
        if self._match_text_seq("ORDERED", "BY"):
            times["ordered_by"] = self._expect_name("the ordering column")
            if self._match_text_seq("BATCH"):
                times["batch"] = self._expect_name("the batch column")
        elif self._match_text_seq("VALID"):
            times["valid"] = self._parse_wrapped_csv(lambda: self._expect_name("a column"))
        return times

    def _parse_declared_column(self) -> exp.ColumnDef:
        name = self._expect_name("a column")
        at = self._here()
        kind = self._parse_types(check_func=False, schema=False)
        if kind is None or not isinstance(kind, exp.DataType) or kind.this == exp.DataType.Type.USERDEFINED:
            self._stop(f"expected the type of column '{name.name}'", *at, help="as in price DOUBLE")
        constraints = []
        if self._match_text_seq("NOT", "NULL"):
            constraints.append(exp.ColumnConstraint(kind=exp.NotNullColumnConstraint()))
        self._match_text_seq("NULL")
        if self._match_text_seq("COMMENT"):
            self._parse_string()
        return exp.ColumnDef(this=name, kind=kind, constraints=constraints)

    def _parse_call(self, what: str) -> exp.Expression:
        at, found = self._here(), self._but_found()
        name = self._parse_id_var(any_token=True)
        if not isinstance(name, exp.Identifier) or not self._match(TokenType.L_PAREN, advance=False):
            self._stop(f"expected {what}{found}", *at)
        arguments = self._parse_wrapped_csv(self._parse_unary)
        return exp.Anonymous(this=name, expressions=arguments)

    def _parse_options(self) -> list[exp.Expression] | None:
        if not self._match_text_seq("WITH"):
            return None

        def option() -> exp.Expression:
            key = self._expect_name("an option")
            while self._match(TokenType.DOT):
                key.set("this", f"{key.name}.{self._expect_name('an option').name}")
            if not self._match(TokenType.EQ):
                self._stop(f"expected ={self._but_found()}", *self._here())
            value = self._parse_unary()
            if value is None:
                self._stop(f"expected the value of option '{key.name}'", *self._here())
            return exp.EQ(this=key, expression=value)

        return self._parse_wrapped_csv(option)  # type: ignore[no-any-return]

    def _parse_drop_statement(self) -> exp.Expression:
        for kind in ("STREAM", "VIEW", "TABLE", "SOURCE", "QUERY"):
            if self._match_text_seq(kind):
                exists = bool(self._match_text_seq("IF", "EXISTS"))
                return syntax.DropDefinition(kind=kind, this=self._expect_name("a name"), exists=exists)
        self._stop(f"expected STREAM, VIEW, TABLE or QUERY{self._but_found()}", *self._here())
        raise AssertionError

    def _parse_insert_statement(self) -> exp.Expression:
        self._expect("INTO")
        sink = self._parse_call("a sink, as parquet('directory')")
        options = self._parse_options()
        name = self._expect_name("a name for the query") if self._match_text_seq("AS") else None
        return syntax.InsertInto(sink=sink, options=options, this=name, query=self._parse_query())

    def _parse_describe_statement(self) -> exp.Expression:
        what = parse_described(self) or self._expect_name("a stream, view or table")
        if isinstance(what, exp.Identifier) and self._match(TokenType.DOT):
            what.set("this", f"{what.name}.{self._expect_name('a name').name}")
        return syntax.DescribeDefinition(this=what)

    def _parse_set_statement(self) -> exp.Expression:
        name = self._expect_name("an option")
        if not self._match(TokenType.EQ):
            self._stop(f"expected ={self._but_found()}", *self._here())
        return syntax.SetOption(this=name, value=self._parse_unary())

    # FROM -----------------------------------------------------------------------------------------------

    def _is_relation_to_stream(self) -> bool:
        return (
            self._curr is not None
            and self._curr.text.upper() in ("ISTREAM", "DSTREAM", "RSTREAM")
            and self._next is not None
            and self._next.token_type == TokenType.L_PAREN
        )

    def _parse_select_query(
        self,
        nested: bool = False,
        table: bool = False,
        parse_subquery_alias: bool = True,
        parse_set_operation: bool = True,
    ) -> exp.Expression | None:
        token = self._curr
        if not self._is_relation_to_stream():
            query = super()._parse_select_query(
                nested=nested,
                table=table,
                parse_subquery_alias=parse_subquery_alias,
                parse_set_operation=parse_set_operation,
            )
            first = query
            while isinstance(first, exp.SetOperation):
                first = first.this
            if isinstance(first, exp.Select) and token.token_type == TokenType.SELECT:
                if not first.expressions:
                    self._stop(
                        "nothing is selected", token.start, token.end + 1, "SELECT * takes all columns"
                    )
                first.meta.setdefault("start", token.start)
                first.meta.setdefault("end", token.end)
            return query  # type: ignore[no-any-return]
        self._advance(2)
        starts_query = self._curr.token_type in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN)
        if starts_query or self._is_relation_to_stream():
            inner = self._parse_query()
        else:
            inner = exp.Select(expressions=[exp.Star()], from_=exp.From(this=self._parse_table()))
        self._match_r_paren()
        every = None
        if self._match_text_seq("EVERY"):
            every = self._parse_duration("a period")
        stream = syntax.RelationToStream(this=inner, kind=token.text.upper(), every=every)
        stream.meta.update(start=token.start, end=token.end)
        if table and parse_subquery_alias:
            stream.set("alias", self._parse_table_alias())
        return stream

    def _parse_table(self, *args: Any, joins: bool = False, **options: Any) -> exp.Expression | None:
        for own in (parse_clock, parse_file, parse_window_function, parse_quarantine):
            if (item := own(self, joins)) is not None:
                return item
        return super()._parse_table(*args, joins=joins, **options)  # type: ignore[no-any-return]

    def _parse_table_alias(self, alias_tokens: Any = None) -> exp.TableAlias | None:
        """A window stands before or after the alias of the stream reference (PIPES writes both)."""
        refuse_row_pattern(self)
        window, sync, alias = self._parse_window_clause(), parse_sync(self), None
        if not self._match_text_seq("AS", "OF", advance=False):
            alias = super()._parse_table_alias(alias_tokens=alias_tokens)
            refuse_row_pattern(self)
        window, sync = window or self._parse_window_clause(), sync or parse_sync(self)
        if window is None and sync is None:
            return alias
        columns = alias.args.get("columns") if alias else None
        return syntax.StreamAlias(
            this=alias.this if alias else None, columns=columns, window=window, sync=sync
        )

    def _parse_window_clause(self) -> syntax.StreamWindow | None:
        if self._match_pair(TokenType.WINDOW, TokenType.L_PAREN):
            return self._parse_stream_window()
        return None

    def _parse_stream_window(self) -> syntax.StreamWindow:
        opening = self._tokens[self._index - 2]
        partition = None
        if self._match(TokenType.PARTITION_BY) or self._match_text_seq("PARTITION", "BY"):
            partition = self._parse_csv(self._parse_column)
        frame = self._curr
        if frame and frame.text.upper() in FORMS:
            return parse_sequence(self, opening, partition)
        if not self._match_texts(("RANGE", "ROWS")):
            self._stop(
                f"expected RANGE, ROWS, FROM, FOR or SESSION{self._but_found()}",
                *self._here(),
                help="as in WINDOW(RANGE 10 MINUTES), WINDOW(PARTITION BY item ROWS 10 SLIDE 5)",
            )
        size = slide = start = granularity = None
        if frame.text.upper() == "ROWS":
            self._refuse_range("a number of rows")
        if not self._match_text_seq("UNBOUNDED"):
            size = parse_size(self, "the size of the window")
        if self._match_text_seq("SLIDE"):
            slide = self._parse_duration("the slide of the window")
            start = parse_start(self)
        if self._match_text_seq("GRANULARITY"):
            if frame.text.upper() == "ROWS":
                self._refuse_range("the granularity of this window")
            granularity = parse_size(self, "the granularity")
        priority = parse_priority(self)
        if not self._match(TokenType.R_PAREN):
            more = "SLIDE" if slide is None else "STARTING AT"
            advice = {
                "STARTING": "STARTING AT says where slides begin: RANGE 10 SLIDE 5 STARTING AT 3",
                "DELAY": "a DELAY belongs to a sequence: FROM 5*i TO 5*i + 9 EVERY 5 DELAY 2",
            }.get(self._curr.text.upper() if self._curr else "")
            wanted = f"{more}, GRANULARITY or )" if priority is None else ")"
            self._stop(f"expected {wanted}{self._but_found()}", *self._here(), help=advice)
        window = syntax.StreamWindow(
            frame=frame.text.upper(), size=size, slide=slide, start=start, partition=partition,
            granularity=granularity, priority=priority,
        )  # fmt: skip
        window.meta.update(start=opening.start, end=self._prev.end)
        return window

    def _parse_duration(self, what: str) -> syntax.Duration:
        return parse_duration(self, what)

    def _refuse_range(self, what: str) -> None:
        refuse_range(self, what, "say one value; ranges are for RANGE: WINDOW(RANGE BETWEEN 5 AND 60)")


class Tidegate(Spark):
    """Spark SQL with streams."""

    Tokenizer = _Tokenizer
    Parser = _Parser
    Generator = StreamGenerator


def text_of(node: exp.Expression) -> str:
    """A syntax tree as text.

    >>> text_of(parse("select a from S window(rows 3 slide 2) as s")[0])
    'SELECT a FROM S WINDOW(ROWS 3 SLIDE 2) s'
    """
    # sqlglot puts AS before whatever stands in an alias's place
    return node.sql(dialect=Tidegate).replace(" AS WINDOW(", " WINDOW(")


def parse(text: str) -> list[exp.Expression]:
    """The statements of a script.

    >>> [type(s).__name__ for s in parse("CREATE STREAM x AS SELECT a FROM S WINDOW(ROWS 3) s; SELECT * FROM x")]
    ['CreateView', 'Select']
    """
    check_length(text)
    dialect = Tidegate()
    parser = dialect.parser(error_level=ErrorLevel.IMMEDIATE)
    try:
        tokens = with_calls_of_window(dialect.tokenize(text))
        statements: list[Any] = parser.parse(tokens, text)
    except _SyntaxError as error:
        kind = Kind.UNSUPPORTED if error.condition == "UNSUPPORTED" else Kind.USER
        where = position_at(text, *error.span)
        raise Diagnostic(error.condition, error.message, where, text, error.help, kind) from None
    except TokenError:
        where = position_at(text, unclosed(text) or 0, len(text))
        raise Diagnostic("SYNTAX_ERROR", "a quote or comment is not closed", where, text) from None
    except RecursionError:
        reached = parser._curr or parser._prev
        where = position_at(text, reached.start if reached else 0)
        raise Diagnostic("STATEMENT_TOO_LARGE", "the statement is nested too deeply", where, text) from None
    except (LookupError, TypeError, ValueError, AttributeError):
        where = position_at(text, parser._prev.start, parser._prev.end + 1)
        raise Diagnostic("SYNTAX_ERROR", "these arguments make no call", where, text) from None
    for statement in statements:
        if isinstance(statement, syntax.AsOf) and statement.args.get("with_") is not None:
            # The parser gives WITH to the whole statement; it belongs to the query.
            statement.args["query"].set("with_", statement.args["with_"].pop())
        if isinstance(statement, exp.Command):
            raise Diagnostic(
                "SYNTAX_ERROR", "this is not a statement of Tidegate", position_at(text, 0), text
            )
    return [checked(s, text) for s in statements if s is not None and not isinstance(s, exp.Semicolon)]


def unclosed(text: str) -> int | None:
    """Where the quote or comment opens that is never closed, if one is not."""
    i, size = 0, len(text)
    while i < size:
        if text.startswith("--", i):
            i = text.find("\n", i)
            if i < 0:
                break
        elif text.startswith("/*", i):
            closing = text.find("*/", i + 2)
            if closing < 0:
                return i
            i = closing + 1
        elif text[i] in "'\"`":
            opening, quote = i, text[i]
            i += 1
            while i < size and text[i] != quote:
                i += 2 if text[i] == "\\" else 1
            if i >= size:
                return opening
        i += 1
    return None
