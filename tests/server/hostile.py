"""Statements that try to get out of a server that allows nothing; `{folder}` is where it runs."""

from __future__ import annotations

_FILES = [
    "/etc/passwd", "{folder}/tokens", "{folder}/state/server.json", "file:///etc/passwd", "own/a.csv", "../server/tokens", "own/../tokens",
    "/proc/self/environ", "s3a://bucket/key", "http://169.254.169.254/latest", "${{SESAME}}",
]  # fmt: skip

HOSTILE = [
    *(f"CREATE STREAM X(a STRING, t BIGINT) SOURCE csv('{f}') ORDERED BY t" for f in _FILES),
    *(f"SELECT * FROM '{f}' AS OF 1" for f in ("/etc/passwd.csv", "{folder}/own/a.csv", "own/a.csv")),
    "DESCRIBE '{folder}/own/a.csv'",
    "CREATE TABLE X(a STRING) FROM json('/etc/passwd')",
    "CREATE TABLE X FROM parquet('{folder}/state')",
    "CREATE STREAM X(a STRING, t BIGINT) SOURCE spark('text', '/etc/passwd') ORDERED BY t",
    "CREATE STREAM X(a STRING, t BIGINT) SOURCE spark('jdbc') ORDERED BY t WITH (url = 'jdbc:derby:;create=true')",
    "CREATE STREAM X(a STRING, t BIGINT) SOURCE kafka('broker:9092', 'topic') ORDERED BY t",
    "CREATE STREAM X(a STRING, t BIGINT) SOURCE socket('127.0.0.1', 22) ORDERED BY t",
    "CREATE STREAM X(a STRING, t BIGINT) SOURCE evil_package('x') ORDERED BY t",
    "CREATE STREAM X(a STRING, t BIGINT) SOURCE memory('${{SESAME}}') ORDERED BY t",
    "CREATE STREAM X(a STRING, t BIGINT) SOURCE memory('X') ORDERED BY t WITH (slack = '${{SESAME}}')",
    "CREATE OR REPLACE STREAM Own(a STRING, t BIGINT) SOURCE csv('/etc/passwd') ORDERED BY t",
    "INSERT INTO csv('/tmp/out') SELECT room FROM Temp",
    "INSERT INTO csv('{folder}/own') SELECT room FROM Temp",
    "INSERT INTO parquet('{folder}/state/graphs') SELECT room FROM Temp",
    "INSERT INTO console() SELECT room FROM Temp",
    "START x AS INSERT INTO json('{folder}/x') SELECT room FROM Temp",
    "SELECT reflect('java.lang.System', 'getenv', 'SESAME') FROM Temp AS OF 1",
    "SELECT java_method('java.lang.System', 'exit', 0) FROM Temp AS OF 1",
    "EXPLAIN SELECT reflect('java.lang.System', 'exit', 0) FROM Temp",
    "VERIFY SELECT reflect('java.lang.System', 'exit', 0) FROM Temp",
    "CREATE VIEW X AS SELECT reflect('java.lang.System', 'exit', 0) AS x FROM Temp",
    "START x AS SELECT reflect('java.lang.System', 'exit', 0) AS x FROM Temp",
    "ALTER QUERY hot AS SELECT room, reflect('java.lang.System', 'exit', 0) AS top FROM Temp",
    "SELECT input_file_name() FROM Own AS OF 1",
    "SELECT current_user() FROM Temp AS OF 1",
    "SELECT from_avro(room, '{{}}') FROM Temp AS OF 1",
    "SELECT xpath(room, 'a') FROM Temp AS OF 1",
    "SELECT * FROM parquet.`{folder}/state` AS OF 1",
    "SELECT * FROM csv.`/etc/passwd` AS OF 1",
    "ADD JAR '/tmp/evil.jar'",
    "CREATE FUNCTION evil AS 'evil.Class'",
    "CREATE TEMPORARY FUNCTION evil AS 'evil.Class' USING JAR '/tmp/evil.jar'",
    "SET spark.driver.extraJavaOptions = '-Dx'",
    "LOAD DATA INPATH '/etc/passwd' INTO TABLE x",
    "CACHE TABLE Temp",
]
