"""A Spark Connect server, out of the jar that PySpark brings."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.servers.cluster import Cluster, family, waited


@dataclass
class ConnectServer:
    """A server whose tasks run on a cluster."""

    process: subprocess.Popen[bytes]
    address: str

    @classmethod
    def started(cls, cluster: Cluster) -> ConnectServer:
        home, log = Path(pyspark.__file__).parent, cluster.place / "connect.log"
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        environment |= {"SPARK_HOME": str(home), "PYSPARK_PYTHON": str(cluster.python)}
        said = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "600m",
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
        }
        settings = [word for name, value in said.items() for word in ("--conf", f"{name}={value}")]
        main = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        command = [str(home / "bin" / "spark-submit"), "--master", cluster.master, *main, *settings]
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, "spark-internal"], env=environment, stdout=out, stderr=out, cwd=cluster.place,
                start_new_session=True,
            )  # fmt: skip
        server = cls(process, "")
        try:
            server.address = waited("the server", r"Connect server started at: (127\S+:\d+)", log, process)[1]
        except BaseException:
            server.stop()
            raise
        return server

    def stop(self) -> None:
        for pid in family(self.process.pid) if self.process.poll() is None else ():
            os.kill(pid, 9)
        self.process.wait()
