"""The Spark session Tidegate runs on: quiet, in UTC, with workers that run this interpreter."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.errors import Diagnostic

_SECRET_OPTIONS = "(?i)url|secret|password|passwd|passphrase|token|credential|key|jaas"

_QUIET = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %replace{%replace{%m%n%ex}{://([^/:@ ]*):[^/@ ]+@}{://$1:***@}}{(?i)((?:password|passwd|passphrase|secret|token|credential|key|jaas)[a-z._-]*["']? *[=:] *["']?)[^ "'&;,)]+}{$1***}
"""

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
) -> SparkSession:
    """A session beside a given or the running one, or a new one at `master` (default: every core of this machine).

    `packages` are connector coordinates (Kafka, Delta, …) that Spark fetches by name at start. Unless `verbose`,
    what the JVM writes goes to a file in the directory for temporary files: errors reach Python as exceptions.
    """
    calls = logging.getLogger("py4j")
    if calls.level == logging.NOTSET:
        calls.setLevel(
            logging.INFO
        )  # a program that logs everything would log every option that goes to Java, secrets too
    if spark is not None:
        return own_session(spark)
    running = SparkSession.getActiveSession()
    if running is not None and master is None and not packages:
        return own_session(running)
    # Workers must run the interpreter that holds the packages, not the first python3 on the path.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("tidegate").master(master or "local[*]")
    for name, value in settings(master or "local[*]", verbose).items():
        builder = builder.config(name, value)
    if packages:
        builder = builder.config("spark.jars.packages", ",".join(packages))
    if verbose:
        return builder.getOrCreate()
    # PySpark logs every error that it raises, with the Java stack; the exception says it all.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    with _quiet_launch() as log:
        try:
            session = builder.getOrCreate()
        except Exception as problem:
            tail = log.read_text(errors="replace")[-2000:]
            raise Diagnostic(
                "SPARK_START",
                f"Spark did not start: {problem}\n{tail}".rstrip(),
                help="Spark 4.3 needs a full Java runtime, version 17 or later; set JAVA_HOME to it",
            ) from problem
    return session


_MEANING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # A text that holds ${env:PATH} is that text.
    "spark.sql.variable.substitute": "false",
    "spark.sql.redaction.options.regex": _SECRET_OPTIONS,
}
"""What decides values, and what nobody is told: the same in every session that Tidegate computes on."""


def own_session(spark: SparkSession, **settings: str) -> SparkSession:
    """A session beside the user's, with its settings but for those that decide values, and some more.

    What users set in theirs, before or later, changes no answer, and what is set here does not reach them.
    """
    own = spark.newSession()
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
    }
    if local and count is not None:
        found |= {
            "spark.sql.shuffle.partitions": str(count),
            "spark.default.parallelism": str(count),
            "spark.driver.memory": _driver_memory(),
            "spark.driver.host": "localhost",
            "spark.driver.bindAddress": "127.0.0.1",
            # Tasks already use every core; threads of a task beside them would only get in each other's way.
            "spark.executorEnv.POLARS_MAX_THREADS": "1",
            "spark.executorEnv.NUMBA_NUM_THREADS": "1",
            # The first touch of a page costs more than what is then done with it, so memory that was freed is kept for a while.
            "spark.executorEnv._RJEM_MALLOC_CONF": "dirty_decay_ms:30000,muzzy_decay_ms:30000",
            "spark.executorEnv.GLIBC_TUNABLES": f"glibc.malloc.mmap_threshold={1 << 30}:glibc.malloc.trim_threshold={2 << 30}",
        }
    options = _LATE_OPTIMIZING if local else []
    if not verbose:
        found["spark.log.level"] = "ERROR"
        options = [*options, f"-Dlog4j2.configurationFile={_log_configuration().as_uri()}"]
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


def _log_configuration() -> Path:
    """A file of this process's own: at a name that others can guess, they could lay one before."""
    handle, name = tempfile.mkstemp(prefix="tidegate-log4j2-", suffix=".properties")
    with os.fdopen(handle, "w") as file:
        file.write(_QUIET)
    atexit.register(Path(name).unlink, missing_ok=True)
    return Path(name)


@contextmanager
def _quiet_launch() -> Iterator[Path]:
    """Let the JVM that is launched inside inherit a file as its standard output and error.

    The JVM prints to them before any logging configuration is read, and no option silences that.
    """
    handle, name = tempfile.mkstemp(prefix="tidegate-jvm-", suffix=".log")
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    try:
        yield Path(name)
    finally:
        os.dup2(saved[0], 1)
        os.dup2(saved[1], 2)
        for descriptor in (*saved, handle):
            os.close(descriptor)


def part_done(spark: SparkSession) -> float:
    """Which part of the tasks of the stages that run is done; 0: none, or nobody knows."""
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # a session at a distance has no context
        return 0.0
    every = sum(s.numTasks for s in stages if s is not None)
    return sum(s.numCompletedTasks for s in stages if s is not None) / every if every else 0.0
