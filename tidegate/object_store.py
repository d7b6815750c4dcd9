"""How an S3 store is reached, as Hadoop's settings `fs.s3a.*` say it, and how an object is written there only if there is none of its name.

Arrow's file system knows no condition on writing, so that one request is made and signed here (AWS Signature Version 4). It needs keys that
were given; with keys that only the SDK finds (a machine's role), nothing can be signed, and an object is written as any other.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

from pyarrow import fs

PREFIX = "spark.hadoop.fs.s3a."


class ExistsError(Exception):
    """There is an object of that name."""


@dataclass(frozen=True)
class Access:
    """Where a store is and by which keys it opens. Keys are not shown."""

    endpoint: str = ""
    region: str = ""
    path_style: bool = False
    key: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    token: str = field(default="", repr=False)

    @classmethod
    def of(cls, conf: Mapping[str, str]) -> Access:
        """What settings of Spark's say, and the environment where they say nothing.

        >>> Access.of({"spark.hadoop.fs.s3a.endpoint": "http://localhost:9", "spark.hadoop.fs.s3a.secret.key": "sesame"}).endpoint
        'http://localhost:9'
        """

        def told(name: str, variable: str) -> str:
            return str(conf.get(PREFIX + name) or os.environ.get(variable, ""))

        return cls(
            told("endpoint", "AWS_ENDPOINT_URL"),
            told("endpoint.region", "AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", ""),
            str(conf.get(PREFIX + "path.style.access", "false")).lower() == "true",
            told("access.key", "AWS_ACCESS_KEY_ID"),
            told("secret.key", "AWS_SECRET_ACCESS_KEY"),
            told("session.token", "AWS_SESSION_TOKEN"),
        )

    def file_system(self) -> Any:
        """Arrow's file system for the store."""
        given: dict[str, Any] = {}
        if self.endpoint:
            parts = urlsplit(self._url())
            given |= {"endpoint_override": parts.netloc, "scheme": parts.scheme}
            given["force_virtual_addressing"] = not self.path_style
        if self.region:
            given["region"] = self.region
        if self.key:
            given |= {"access_key": self.key, "secret_key": self.secret, "session_token": self.token or None}
        return fs.S3FileSystem(**given)

    @property
    def can_sign(self) -> bool:
        return bool(self.key and self.secret)

    def create(self, path: str, data: bytes) -> None:
        """Write the object `bucket/key`, or raise `ExistsError`: of several who try, one succeeds."""
        bucket, _, key = path.partition("/")
        base = urlsplit(self._url())
        host = base.netloc if self.path_style else f"{bucket}.{base.netloc}"
        place = "/" + quote(f"{bucket}/{key}" if self.path_style else key, safe="/-_.~")
        headers = self._signed(host, place, data, datetime.now(UTC))
        headers["content-type"] = "application/octet-stream"  # otherwise it is taken for a form
        request = urllib.request.Request(
            f"{base.scheme}://{host}{place}", data=data, headers=headers, method="PUT"
        )
        try:
            with urllib.request.urlopen(request, timeout=60):
                return
        except urllib.error.HTTPError as problem:
            # 409: another request for the same name was under way.
            if problem.code in (409, 412):
                raise ExistsError(path) from None
            raise OSError(f"{path} cannot be written: the store says {problem.code}") from None
        except urllib.error.URLError as problem:
            raise OSError(f"{path} cannot be written: {problem.reason}") from None

    def _url(self) -> str:
        if not self.endpoint:
            return f"https://s3.{self.region or 'us-east-1'}.amazonaws.com"
        return self.endpoint if "://" in self.endpoint else f"https://{self.endpoint}"

    def _signed(self, host: str, place: str, data: bytes, now: datetime) -> dict[str, str]:
        moment, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        content = hashlib.sha256(data).hexdigest()
        headers = {"host": host, "if-none-match": "*", "x-amz-content-sha256": content, "x-amz-date": moment}
        if self.token:
            headers["x-amz-security-token"] = self.token
        names = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        asked = hashlib.sha256(f"PUT\n{place}\n\n{lines}\n{names}\n{content}".encode()).hexdigest()
        scope = f"{day}/{self.region or 'us-east-1'}/s3/aws4_request"
        signer = f"AWS4{self.secret}".encode()
        for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{asked}"):
            signer = hmac.digest(signer, part.encode(), "sha256")
        credential = f"Credential={self.key}/{scope}, SignedHeaders={names}, Signature={signer.hex()}"
        return headers | {"Authorization": f"AWS4-HMAC-SHA256 {credential}"}
