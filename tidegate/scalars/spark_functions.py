"""Functions that only Spark evaluates: those that SQL may call, and those that it may not, with the reason.

Each was looked at by itself: a function is allowed if its value follows from its arguments alone and if it reaches nothing
but them. What is in neither list is refused. `check` reads the text that Spark is given, so that whatever a name is wrapped in, it is seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from tidegate.errors import Diagnostic, did_you_mean
from tidegate.scalars.expressions import span_of
from tidegate.scalars.library import FUNCTIONS
from tidegate.scalars.patterns import bounded

ALLOWED = frozenset(
    """
    acos acosh asin asinh atan atan2 atanh bin bit_count bit_get bit_length bitmap_bit_position bitmap_bucket_number
    bitmap_count cbrt conv cos cosh cot csc degrees div expm1 factorial getbit hypot log1p negative positive radians rint sec
    shiftleft shiftright shiftrightunsigned sin sinh tan tanh width_bucket
    try_add try_divide try_mod try_multiply try_subtract
    bigint binary boolean decimal double float int smallint string tinyint time
    aes_decrypt try_aes_decrypt base64 char chr collate collation crc32 decode elt encode find_in_set format_number
    from_base32 hash hex hmac ilike is_valid_utf8 jaro_winkler_similarity levenshtein like luhn_check make_valid_utf8 mask
    octet_length overlay parse_url quote sentences soundex to_base32 to_binary to_char to_number to_varchar
    try_parse_url try_to_binary try_to_number try_url_decode try_validate_utf8 unbase64 unhex url_decode url_encode
    validate_utf8 xxhash64
    regexp regexp_count regexp_extract_all regexp_instr regexp_substr rlike
    convert_timezone datepart dayname from_unixtime from_utc_timestamp make_dt_interval make_interval make_time make_timestamp
    make_timestamp_ltz make_timestamp_ntz make_ym_interval monthname months_between next_day time_bucket time_diff
    time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc
    timestamp_nanos to_time to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp try_make_interval
    try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_time try_to_timestamp unix_nanos
    aggregate array_append array_compact array_distinct array_except array_intersect array_join array_max
    array_min array_position array_prepend array_remove array_sort array_union arrays_overlap arrays_zip exists filter
    flatten forall get map map_concat map_contains_key map_entries map_filter map_from_arrays map_from_entries map_keys
    map_values map_zip_with reduce slice sort_array str_to_map transform transform_keys transform_values try_element_at
    zip_with
    between equal_null nullifzero typeof when zeroifnull assert_true raise_error
    from_csv from_json get_json_object json_array_length json_object_keys schema_of_csv schema_of_json to_csv to_json to_xml
    is_valid_variant is_variant_null parse_json schema_of_variant to_variant_object try_parse_json try_variant_array_append
    try_variant_get try_variant_insert try_variant_set variant_array_append variant_delete variant_get variant_insert
    variant_set variant_strip_nulls
    st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid
    vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm vector_normalize
    approx_top_k_estimate hll_sketch_estimate hll_union theta_difference theta_intersection theta_sketch_estimate theta_union
    kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint
    kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint kll_sketch_get_rank_double
    kll_sketch_get_rank_float kll_sketch_to_string_bigint kll_sketch_to_string_double kll_sketch_to_string_float
    tuple_difference_double tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer
    tuple_intersection_double tuple_intersection_integer tuple_intersection_theta_double tuple_intersection_theta_integer
    tuple_sketch_estimate_double tuple_sketch_estimate_integer tuple_sketch_summary_double tuple_sketch_summary_integer
    tuple_sketch_theta_double tuple_sketch_theta_integer tuple_union_double tuple_union_integer tuple_union_theta_double
    tuple_union_theta_integer
    """.split()
)
"""Those that SQL may call."""

_REASONS = {
    "calls Java, whatever is asked for": "java_method reflect try_reflect",
    "reads what is named in its options: files, schemas, other documents": """from_avro from_protobuf from_xml schema_of_avro
    schema_of_xml to_avro to_protobuf xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number
    xpath_short xpath_string""",
    "tells about the machine, the session or the files, not about its arguments": """current_catalog current_database
    current_path current_schema current_timezone current_user input_file_block_length input_file_block_start
    input_file_name session_user user version""",
    "has no single value": """aes_encrypt curdate current_date current_time current_timestamp kll_sketch_merge_bigint
    kll_sketch_merge_double kll_sketch_merge_float localtime localtimestamp monotonically_increasing_id now rand randn random
    randstr shuffle spark_partition_id uniform uuid""",
    "makes values without bound": "array_insert array_repeat format_string printf sequence",
    "gives several rows, not one value": """collations explode explode_outer inline inline_outer json_tuple posexplode
    posexplode_outer python_worker_logs range sql_keywords stack variant_explode variant_explode_outer""",
    "looks at other rows": """counter_diff cume_dist dense_rank grouping grouping_id lag lead nth_value ntile percent_rank rank
    row_number session_window window window_time""",
    "is an aggregate that is not available": """any any_value approx_count_distinct approx_percentile approx_top_k
    approx_top_k_accumulate approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg
    bitmap_or_agg bool_and bool_or collect_list collect_set collect_union corr count count_if count_min_sketch covar_pop
    covar_samp every first first_value histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
    kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last
    last_value listagg max max_by mean measure median min min_by mode percentile percentile_approx percentile_cont
    percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
    schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg sum theta_intersection_agg
    theta_sketch_agg theta_union_agg try_avg try_sum tuple_intersection_agg_double tuple_intersection_agg_integer
    tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer var_pop var_samp variance
    vector_avg vector_sum""",
}

REFUSED = {name: reason for reason, names in _REASONS.items() for name in names.split()}
"""Those that it may not, and why."""

WORDS = frozenset(
    """and array as between by case cast distinct else end escape except extract from ignore in interval is like not null nulls
    on or order over respect rlike regexp ilike then try_cast trim position struct substring substr overlay when with within
    date timestamp timestamp_ntz timestamp_ltz decimal numeric dec varchar char map to""".split()
)
"""What stands before a parenthesis and is no function, and what the grammar itself evaluates."""

_BARE = frozenset(
    """current_catalog current_database current_date current_path current_schema current_time current_timestamp
    current_user localtime localtimestamp session_user user""".split()
)
"""Functions that need no parentheses."""

_WITH_PATTERN = frozenset(
    "regexp regexp_count regexp_extract_all regexp_extractall regexp_instr regexp_substr rlike".split()
)
_OWN = frozenset(name.lower() for name in FUNCTIONS)
_NAME = re.compile(r"\w+")


def called(text: str) -> Iterator[str]:
    """The names that a text of Spark's SQL calls, in lower case.

    >>> list(called("soundex(c0) || 'reflect(1)' || builtin.`java_method`(current_user)"))
    ['soundex', 'java_method', 'current_user']
    """
    tokens: list[Token] = Spark().tokenize(text)
    for i, token in enumerate(tokens):
        if token.token_type in (TokenType.STRING, TokenType.NUMBER) or not _NAME.fullmatch(token.text):
            continue
        word = token.text.lower()
        opens = i + 1 < len(tokens) and tokens[i + 1].token_type == TokenType.L_PAREN
        member = i > 0 and tokens[i - 1].token_type == TokenType.DOT
        if opens or (word in _BARE and not member):
            yield word


def check(expression: exp.Expression, further: frozenset[str] | None = None) -> None:
    """Refuse an expression that calls what Spark has and SQL may not; `further` names those that are left of `ALLOWED`."""
    _check_patterns(expression)
    for name in called(expression.sql(dialect="spark")):
        withheld = further is not None and name in ALLOWED and name not in further and name not in WORDS
        if not withheld and (name in ALLOWED or name in _OWN or (name in WORDS and name not in REFUSED)):
            continue
        place = span_of(_calling(expression, name))
        if name in REFUSED or withheld:
            reason = REFUSED.get(name, "was not named by whoever opened the session")
            raise Diagnostic(
                "FUNCTION_NOT_ALLOWED",
                f"{name} is not available: it {reason}",
                help="a value follows from the streams alone; docs/security.md says which functions there are",
            ).at(place)
        known = sorted(ALLOWED | _OWN)
        raise Diagnostic(
            "UNKNOWN_FUNCTION", f"there is no function '{name}'", help=did_you_mean(name, known, "functions")
        ).at(place)


def _check_patterns(expression: exp.Expression) -> None:
    """Java tries patterns one way after the other: those of Spark's own functions are constants that need few."""
    for part in expression.walk():
        names = (
            [part.name]
            if isinstance(part, exp.Anonymous)
            else [type(part).__name__.replace("Regexp", "regexp_")]
        )
        if names[0].lower() not in _WITH_PATTERN:
            continue
        arguments = (
            part.expressions if isinstance(part, exp.Anonymous) else [part.this, part.args.get("expression")]
        )
        pattern = arguments[1] if len(arguments) > 1 else None
        if not (isinstance(pattern, exp.Literal) and pattern.is_string):
            raise Diagnostic(
                "PATTERN_UNBOUNDED",
                "only a constant can be the regular expression here",
                help="write it as a text",
            ).at(span_of(expression))
        try:
            bounded(pattern.name)
        except Diagnostic as diagnostic:
            if diagnostic.condition == "PATTERN_UNBOUNDED":
                raise diagnostic.at(span_of(expression)) from None


def _calling(expression: exp.Expression, name: str) -> exp.Expression:
    """The part of an expression that calls a name."""
    for part in expression.walk():
        named = isinstance(part, (exp.Anonymous, exp.Identifier))
        names = [part.name] if named else type(part).sql_names() if isinstance(part, exp.Func) else []
        if isinstance(part, exp.Expression) and name in [n.lower() for n in names]:
            return part
    return expression
