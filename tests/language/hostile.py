"""Statements that try to get out, against a closed policy; ‸ stands before the place where each is refused.

`{inside}` is a directory that may be read, with a link `out` in it that leads to `{outside}`; `{sink}` may be written.
"""

from __future__ import annotations

HOSTILE = """
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE csv(‸'/etc/passwd') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE csv(‸'{outside}/secret.csv') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE csv(‸'file://{outside}/secret.csv') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE csv(‸'file:{outside}/secret.csv') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE csv(‸'FILE:{outside}/secret.csv') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE csv(‸'file:/{inside}/a.csv') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE csv(‸'{inside}/../outside/secret.csv') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE csv(‸'{inside}/out/secret.csv') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE csv(‸'{inside}/*') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE csv(‸'{inside}/o?t/*.csv') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE csv(‸'{inside}/[^a]*') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE csv(‸'{inside}') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE csv(‸'{inside}/{{../outside/secret,a}}.csv') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE csv(‸'{inside}/%2e%2e/{{a}}') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE csv(‸'{inside}-more/a.csv') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE json(‸'s3a://bucket/key') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE json(‸'hdfs://host/etc') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE json(‸'http://169.254.169.254/latest') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE parquet(‸'jar:file:/x.jar') ORDERED BY t
NOT_ALLOWED CREATE TABLE X(a STRING) FROM parquet(‸'/proc/self/environ')
NOT_ALLOWED REGISTER SOURCE X(a STRING, t BIGINT) FROM csv(‸'~/.ssh/id_rsa') ORDERED BY t
NOT_ALLOWED CREATE OR REPLACE STREAM S(a STRING, t BIGINT) SOURCE csv(‸'/etc/passwd') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE ‸kafka('broker:9092', 'topic') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE ‸socket('127.0.0.1', 22) ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a BIGINT, t BIGINT) SOURCE ‸rate() WITH (rows_per_second = 1000000000)
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE ‸spark('jdbc') ORDERED BY t WITH (url = 'jdbc:derby:;databaseName=x;create=true')
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE ‸spark('text', '/etc/passwd') ORDERED BY t
NOT_ALLOWED CREATE STREAM X(a STRING, t BIGINT) SOURCE ‸evilpackage('x') ORDERED BY t
UNKNOWN_OPTION CREATE STREAM X(a STRING, t BIGINT) SOURCE csv('{inside}/a.csv') ORDERED BY t WITH (‸cleanSource = 'delete')
UNKNOWN_OPTION CREATE STREAM X(a STRING, t BIGINT) SOURCE csv('{inside}/a.csv') ORDERED BY t WITH (‸path = '/etc/passwd')
NOT_ALLOWED INSERT INTO csv(‸'/tmp/out') SELECT a FROM S
NOT_ALLOWED INSERT INTO csv(‸'{inside}/a') SELECT a FROM S
NOT_ALLOWED INSERT INTO parquet(‸'{sink}/../outside') SELECT a FROM S
NOT_ALLOWED INSERT INTO json(‸'{sink}/out/x') SELECT a FROM S
NOT_ALLOWED INSERT INTO json(‸'s3a://bucket/x') SELECT a FROM S
NOT_ALLOWED INSERT INTO ‸console() SELECT a FROM S
UNKNOWN_OPTION INSERT INTO csv('{sink}/x') WITH (‸path = '/etc/cron.d/x') SELECT a FROM S
FUNCTION_NOT_ALLOWED SELECT ‸reflect('java.lang.System', 'exit', 0) FROM S
FUNCTION_NOT_ALLOWED SELECT ‸java_method('java.lang.Runtime', 'getRuntime') FROM S
FUNCTION_NOT_ALLOWED SELECT ‸try_reflect('java.lang.System', 'getenv') FROM S
FUNCTION_NOT_ALLOWED SELECT ‸`reflect`('java.lang.System', 'getenv') FROM S
FUNCTION_NOT_ALLOWED SELECT soundex(‸REFLECT('java.lang.System', 'getenv')) FROM S
FUNCTION_NOT_ALLOWED SELECT a FROM S WHERE a = ‸reflect('java.lang.System', 'getenv')
FUNCTION_NOT_ALLOWED SELECT transform(array(a), x -> ‸reflect('java.lang.System', 'getenv', x)) FROM S
FUNCTION_NOT_ALLOWED SELECT COUNT(*) FROM S GROUP BY ‸reflect('java.lang.System', 'getenv')
FUNCTION_NOT_ALLOWED SELECT a FROM S ORDER BY ‸reflect('java.lang.System', 'getenv') LIMIT 1
FUNCTION_NOT_ALLOWED CREATE VIEW V AS SELECT ‸reflect('java.lang.System', 'exit', 0) AS x FROM S
FUNCTION_NOT_ALLOWED EXPLAIN SELECT ‸reflect('java.lang.System', 'exit', 0) FROM S
FUNCTION_NOT_ALLOWED VERIFY SELECT ‸reflect('java.lang.System', 'exit', 0) FROM S
FUNCTION_NOT_ALLOWED INSERT INTO noop() SELECT ‸reflect('java.lang.System', 'exit', 0) FROM S
FUNCTION_NOT_ALLOWED SELECT ‸reflect('java.lang.System', 'exit', 0) FROM S AS OF 1
FUNCTION_NOT_ALLOWED SELECT a FROM S x JOIN S y ON x.a = ‸reflect('java.lang.System', 'getenv', y.a)
FUNCTION_NOT_ALLOWED SELECT ‸array_insert(array(a), 2000000000, a) FROM S
FUNCTION_NOT_ALLOWED SELECT ‸version() FROM S
FUNCTION_NOT_ALLOWED SELECT ‸current_schema() FROM S
NONDETERMINISTIC SELECT ‸current_user() FROM S
NONDETERMINISTIC SELECT ‸input_file_name() FROM S
FUNCTION_NOT_ALLOWED SELECT ‸xpath_string('<a/>', 'a') FROM S
FUNCTION_NOT_ALLOWED SELECT ‸from_xml(a, 'a INT', map('rowValidationXSDPath', '/etc/passwd')) FROM S
FUNCTION_NOT_ALLOWED SELECT ‸from_avro(a, '') FROM S
FUNCTION_NOT_ALLOWED SELECT ‸stack(2, 1, 2) FROM S
SYNTAX_ERROR SELECT identifier('reflect')(‸'java.lang.System', 'exit', 0) FROM S
UNKNOWN_FUNCTION SELECT ‸read_files('/etc/passwd') FROM S
UNSUPPORTED SELECT * FROM ‸read_files('/etc/passwd')
UNSUPPORTED SELECT * FROM ‸csv.`/etc/passwd`
UNKNOWN_STREAM SELECT * FROM ‸`/etc/passwd`
SYNTAX_ERROR ‸ADD JAR '/tmp/evil.jar'
SYNTAX_ERROR CREATE ‸DATABASE x
SYNTAX_ERROR CREATE ‸FUNCTION f AS 'java.lang.System'
SYNTAX_ERROR CREATE ‸TEMPORARY FUNCTION f AS 'java.lang.System' USING JAR 'x'
UNSUPPORTED ‸ALTER TABLE S SET LOCATION '/etc'
SYNTAX_ERROR ‸LOAD DATA INPATH '/etc/passwd' INTO TABLE S
SYNTAX_ERROR INSERT ‸OVERWRITE DIRECTORY '/tmp/x' SELECT a FROM S
UNKNOWN_OPTION SET ‸spark = 1
SYNTAX_ERROR ‸CACHE TABLE S
SYNTAX_ERROR ‸CALL system.exit()
"""
