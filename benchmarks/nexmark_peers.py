"""Install what `tidegate bench nexmark` compares with: Flink in an environment of its own, and the connectors it needs.

Connectors are resolved by name, by Spark's own resolver; Hadoop's client comes with Spark.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from tidegate.nexmark.bench import PEERS

FLINK = "2.3.0"
# Flink 2.3 has wheels for these; its environment may use another Python than Tidegate's.
PYTHONS = ("python3.11", "python3.12", "python3.10")


def install_flink() -> None:
    """The environment below build/peers/flink."""
    place = PEERS / "flink"
    if (place / "bin" / "python").exists() and _has_flink(place):
        return
    shutil.rmtree(place, ignore_errors=True)
    other = next((p for name in PYTHONS if (p := shutil.which(name))), None)
    if other is None or Path(other).resolve() == Path(sys.executable).resolve():
        venv.create(place, with_pip=True)
    else:
        subprocess.run([other, "-m", "venv", str(place)], check=True)
    subprocess.run(
        [place / "bin" / "python", "-m", "pip", "install", "--quiet", f"apache-flink=={FLINK}"], check=True
    )


def _has_flink(place: Path) -> bool:
    asked = [place / "bin" / "python", "-c", "import pyflink.version as v; print(v.__version__)"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == FLINK


def fetch_connectors() -> None:
    """Parquet for Flink below build/peers/jars."""
    place = PEERS / "jars"
    name = f"flink-sql-parquet-{FLINK}.jar"
    place.mkdir(parents=True, exist_ok=True)
    if not (place / name).exists():
        cache = (PEERS / "ivy").absolute()
        session = (
            SparkSession.builder.master("local[1]")
            .config("spark.jars.packages", f"org.apache.flink:flink-sql-parquet:{FLINK}")
            .config("spark.jars.ivy", str(cache))
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "localhost")
            .getOrCreate()
        )
        session.stop()
        found = next(cache.rglob(f"*flink-sql-parquet*{FLINK}.jar"))
        shutil.copy(found, place / name)
    for jar in (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar"):
        if not (place / jar.name).exists():
            shutil.copy(jar, place / jar.name)


if __name__ == "__main__":
    install_flink()
    fetch_connectors()
    print(f"Flink {FLINK} is ready below {PEERS}")
