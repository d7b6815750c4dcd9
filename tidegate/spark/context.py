"""The Spark session Tidegate runs on: quiet, in UTC, with workers that run this interpreter."""

from __future__ import annotations

import logging
import os
import socket
import sys
import weakref
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from tidegate.errors import Diagnostic
from tidegate.redaction import learn
from tidegate.spark.logs import JavaLog, log_configuration
from tidegate.spark.shipping import in_this_environment, is_remote, ship

_SECRET_OPTIONS = "(?i)url|secret|password|passwd|passphrase|token|credential|key|jaas"

_LATE_OPTIMIZING = [
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
]
"""Java optimizes code only after ten times as many calls as usual: most of what a short run calls is planning, and optimizing
it costs more than the run gains. A loop over rows gets there within milliseconds, as before."""


def spark_session(
    master: str | None = None,
    spark: SparkSession | None = None,
    packages: Sequence[str] = (),
    verbose: bool = False,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session beside a given or the running one, or a new one at `master` (default: every core of this machine).

    `packages` are connector coordinates (Kafka, Delta, …) that Spark fetches by name at start, `conf` further settings of
    Spark's. Unless `verbose`, what the JVM writes goes to a file: errors reach Python as exceptions.
    """
    conf = checked_conf(conf or {})
    calls = logging.getLogger("py4j")
    if calls.level == logging.NOTSET:
        calls.setLevel(
            logging.INFO
        )  # a program that logs everything would log every option that goes to Java, secrets too
    running = spark or (
        SparkSession.getActiveSession() if not _is_address(master) else _connected(str(master))
    )
    master = None if _is_address(master) else master
    if running is not None and (packages or conf):
        _refuse_late(running, packages, conf)
    if running is not None and (spark is not None or master is None):
        own = own_session(running, **conf)
        # Artifacts belong to a session of Spark Connect's, and to all sessions of a context.
        ship(own)
        return own
    _choose_interpreters(master or "local[*]", conf)
    told = _told(settings(master or "local[*]", verbose), packages, conf)
    told |= {"spark.app.name": "tidegate", "spark.master": master or "local[*]"}
    builder = SparkSession.builder
    for name, value in told.items():
        builder = builder.config(name, value)
    if verbose or SparkContext._gateway is not None or "SPARK_REMOTE" in os.environ:
        session = builder.getOrCreate()
    else:
        session = _launched(builder, told)
    ship(session)
    return session


def _is_address(master: str | None) -> bool:
    return master is not None and master.startswith("sc://")


def _connected(address: str) -> SparkSession:
    """A session of the Spark Connect server at `sc://host:port`. Spark would try for minutes to reach one that is not there."""
    place = urlsplit(address.replace("sc://", "http://", 1))
    try:
        socket.create_connection((place.hostname or "", place.port or 15002), timeout=20).close()
        return _closed_at_exit(SparkSession.builder.remote(address).getOrCreate())
    except ImportError as problem:
        raise Diagnostic(
            "PACKAGE_MISSING",
            f"Spark Connect needs a package that is not installed: {str(problem).splitlines()[0]}",
            help="pip install 'tidegate[connect]'",
        ) from problem
    except Exception as problem:
        raise Diagnostic(
            "SPARK_START",
            f"no session at {address}: {str(problem).strip().splitlines()[0]}",
            help="is a Spark Connect server of version 4.3 there, and has this program no other Spark?",
        ) from problem


def _closed_at_exit(session: SparkSession) -> SparkSession:
    """The session, closed in time: a Connect session's channel that is open when Python ends waits for threads that are gone then."""
    if is_remote(session):
        weakref.finalize(session, session.client.close)
    return session


def _choose_interpreters(master: str, conf: Mapping[str, str]) -> None:
    """Workers run the interpreter that holds the packages, not the first python3 on the path; on a cluster, the one that was named for them."""
    named = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    beside = in_this_environment(master) or not named
    os.environ["PYSPARK_PYTHON"] = sys.executable if beside else str(named)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def _launched(builder: SparkSession.Builder, told: Mapping[str, str]) -> SparkSession:
    """A session whose JVM writes to the log, from its first word on: no option silences what it prints before any is read."""
    # PySpark logs every error that it raises, with the Java stack; the exception says it all.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    log = JavaLog.opened()
    try:
        conf = SparkConf().setAll(list(told.items()))
        gateway = launch_gateway(conf, {"stdout": log.handle, "stderr": log.handle})  # type: ignore[no-untyped-call]
        SparkContext(conf=conf, gateway=gateway)
        return builder.getOrCreate()
    except Exception as problem:
        said = log.said()
        raise Diagnostic(
            "SPARK_START",
            f"Spark did not start: {str(problem).splitlines()[0]}\n{said}".rstrip(),
            help=_advice(said, str(log.file)),
        ) from problem
    finally:
        os.close(log.handle)


def _advice(said: str, log: str) -> str:
    if "unresolved dependency" in said or "not found" in said.lower():
        return f"is the package's name right (group:artifact:version), and can it be fetched from here? All that Java said is in {log}"
    return f"Spark 4.3 needs a full Java runtime, version 17 or later; set JAVA_HOME to it. All that Java said is in {log}"


def checked_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """Settings of Spark's that a user may make: none that decides values."""
    for name, value in conf.items():
        learn(name, value)
        if not name.startswith("spark."):
            raise Diagnostic(
                "WRONG_ARGUMENTS",
                f"'{name}' is no setting of Spark's",
                help="their names begin with 'spark.', as in spark.driver.memory=4g",
            )
        if name in _MEANING and str(value).lower() != _MEANING[name].lower():
            raise Diagnostic(
                "WRONG_ARGUMENTS",
                f"'{name}' is always {_MEANING[name]}: another value would change answers",
                help="leave it out",
            )
    return {name: str(value) for name, value in conf.items()}


def _told(own: Mapping[str, str], packages: Sequence[str], conf: Mapping[str, str]) -> dict[str, str]:
    """Our settings with the user's, which go before; of lists that both give, both count.

    >>> _told({"a": "1", "spark.driver.extraJavaOptions": "-X"}, ["g:a:1"], {"a": "2", "spark.driver.extraJavaOptions": "-Y"})
    {'a': '2', 'spark.driver.extraJavaOptions': '-X -Y', 'spark.jars.packages': 'g:a:1'}
    """
    found = {**own, **conf}
    java = "spark.driver.extraJavaOptions"
    if java in own and java in conf:
        found[java] = f"{own[java]} {conf[java]}"
    named = [*filter(None, conf.get("spark.jars.packages", "").split(",")), *packages]
    return found | ({"spark.jars.packages": ",".join(named)} if named else {})


def _refuse_late(running: SparkSession, packages: Sequence[str], conf: Mapping[str, str]) -> None:
    """A Spark that runs already can be told some settings, and no packages."""
    known = set((running.conf.get("spark.jars.packages", "") or "").split(","))
    late = sorted(set(packages) - known)
    late += [
        n for n, v in conf.items() if running.conf.get(n, None) != v and not running.conf.isModifiable(n)
    ]
    if late:
        raise Diagnostic(
            "SPARK_RUNS",
            f"Spark runs already in this process, and takes {', '.join(late)} only at its start",
            help="connect with them before anything starts Spark, or give them to the session that you hand in",
        )


_MEANING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # A text that holds ${env:PATH} is that text.
    "spark.sql.variable.substitute": "false",
    # What is written can be read again, by Tidegate and others: instants are microseconds, and INT96 holds nanoseconds.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.redaction.options.regex": _SECRET_OPTIONS,
}
"""What decides values, and what nobody is told: the same in every session that Tidegate computes on."""


def own_session(spark: SparkSession, **settings: str) -> SparkSession:
    """A session beside the user's, with its settings but for those that decide values, and some more.

    What users set in theirs, before or later, changes no answer, and what is set here does not reach them.
    """
    own = _closed_at_exit(spark.newSession())
    before = own.conf.getAll
    for name, value in {**spark.conf.getAll, **_MEANING, **settings}.items():
        if before.get(name) != value and own.conf.isModifiable(name):
            own.conf.set(name, value)
    return own


def cores(spark: SparkSession) -> int:
    """How many tasks run at the same time."""
    return max(1, int(spark.conf.get("spark.tidegate.cores", None) or _default_parallelism(spark)))


def on_one_machine(spark: SparkSession) -> bool:
    """Whether all tasks see the same files and run beside the driver."""
    return str(spark.conf.get("spark.master", "")).startswith("local")


def _default_parallelism(spark: SparkSession) -> str:
    # A Connect session has no SparkContext to ask; its shuffle partitions are the best public hint.
    try:
        return str(spark.sparkContext.defaultParallelism)
    except Exception:
        return spark.conf.get("spark.sql.shuffle.partitions") or "2"


def settings(master: str, verbose: bool) -> dict[str, str]:
    """What a new session is told."""
    local = master.startswith("local")
    count = _local_cores(master) if local else None
    found = {
        **_MEANING,
        "spark.redaction.regex": _SECRET_OPTIONS,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
        # Re-planning between the stages of a job costs more than an epoch of a live query gains from it.
        "spark.sql.adaptive.enabled": "false",
        # One batch per task: kernels want whole columns, and every batch crosses the border on its own.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "2000000",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(1 << 30),
        # Rows that a program hands in go to tasks as they are; the optimizer would work on them one by one in the driver.
        "spark.sql.execution.arrow.localRelationThreshold": "0",
        # The place in Python of every column object, noted in Java: most of the cost of building a small query.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # What Spark remembers of past jobs, and what only a collection of Java's garbage lets it delete, must not grow for hours.
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "20",
        "spark.cleaner.periodicGC.interval": "5min",
        # Frames show as tables in notebooks: a few rows, and whether there are more.
        "spark.sql.repl.eagerEval.enabled": "true",
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.numRecentProgressUpdates": "10",
        # Tasks already use every core; threads of a task beside them would only get in each other's way.
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
        "spark.executorEnv.NUMBA_NUM_THREADS": "1",
    }
    if local and count is not None:
        found |= {
            "spark.sql.shuffle.partitions": str(count),
            "spark.default.parallelism": str(count),
            "spark.driver.memory": _driver_memory(),
            "spark.driver.host": "localhost",
            "spark.driver.bindAddress": "127.0.0.1",
            # The first touch of a page costs more than what is then done with it, so memory that was freed is kept for a while.
            "spark.executorEnv._RJEM_MALLOC_CONF": "dirty_decay_ms:30000,muzzy_decay_ms:30000",
            "spark.executorEnv.GLIBC_TUNABLES": f"glibc.malloc.mmap_threshold={1 << 30}:glibc.malloc.trim_threshold={2 << 30}",
        }
    options = _LATE_OPTIMIZING if local else []
    if not verbose:
        found["spark.log.level"] = "ERROR"
        options = [*options, f"-Dlog4j2.configurationFile={log_configuration().as_uri()}"]
    if options:
        found["spark.driver.extraJavaOptions"] = " ".join(options)
    return found


def _local_cores(master: str) -> int:
    """The cores a local master names.

    >>> _local_cores("local[3]"), _local_cores("local[4, 2]"), _local_cores("local")
    (3, 4, 1)
    """
    if "[" not in master:
        return 1
    count = master.split("[")[1].rstrip("]").split(",")[0].strip()
    return (os.cpu_count() or 1) if count == "*" else int(count)


def _driver_memory() -> str:
    """A quarter of the machine, from 1 to 8 GB: the kernels' memory is outside the JVM and needs room, too."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{max(1024, min(8192, total // (4 << 20)))}m"


def part_done(spark: SparkSession) -> float:
    """Which part of the tasks of the stages that run is done; 0: none, or nobody knows."""
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # a session at a distance has no context
        return 0.0
    every = sum(s.numTasks for s in stages if s is not None)
    return sum(s.numCompletedTasks for s in stages if s is not None) / every if every else 0.0
