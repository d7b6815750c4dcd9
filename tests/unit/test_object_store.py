"""State in an S3 store: of two who publish a manifest one succeeds, requests are signed as the SDK signs them, and keys are not shown."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import pytest

from tests.servers.s3 import BUCKET, KEY, SECRET, Store
from tidegate.errors import Diagnostic
from tidegate.object_store import Access
from tidegate.runtime.ledger import Ledger, after
from tidegate.storage import Storage


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    found = Store.started(tmp_path_factory.mktemp("s3"))
    yield found
    found.stop()


def test_of_many_writers_one_publishes_a_manifest(store: Store) -> None:
    storage = Storage(f"s3a://{BUCKET}/many", access=store.access)

    def attempt(number: int) -> bool:
        try:
            storage.publish_new("manifests/00000001.json", b"%d" % number)
        except Diagnostic as refused:
            return refused.condition != "STATE_IN_USE"
        return True

    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(attempt, range(8)))
    assert won.count(True) == 1
    assert bytes(storage.read("manifests/00000001.json")) == b"%d" % won.index(True)


def test_two_writers_of_one_state_cannot_both_commit(store: Store) -> None:
    storage = Storage(f"s3a://{BUCKET}/two", access=store.access)
    first, second = Ledger(storage), Ledger(storage)
    first.commit(after(first.latest, (), upto=5))
    with pytest.raises(Diagnostic, match="another program runs a graph") as refused:
        second.commit(after(second.latest, (), upto=7))
    assert refused.value.condition == "STATE_IN_USE"
    assert second.latest.epoch == 0
    assert Ledger(storage).latest.upto == 5
    first.commit(after(first.latest, (), upto=9))
    assert Ledger(storage).latest.epoch == 2


def test_a_request_that_was_made_twice_is_no_other_writer(store: Store) -> None:
    storage = Storage(f"s3a://{BUCKET}/again", access=store.access)
    storage.publish_new("manifests/00000001.json", b"same")
    storage.publish_new("manifests/00000001.json", b"same")


def test_requests_are_signed_as_the_sdk_signs_them() -> None:
    auth = pytest.importorskip("botocore.auth")
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    access = Access("http://localhost:9000", "eu-west-1", True, KEY, SECRET, "a-token")
    now, data = datetime(2026, 5, 17, 10, 20, 30, tzinfo=UTC), b"content"
    place = "/bucket/a%20b/manifests/00000001.json"
    mine = access._signed("localhost:9000", place, data, now)
    told = {n: v for n, v in mine.items() if n in ("if-none-match", "x-amz-content-sha256")}
    request = AWSRequest("PUT", f"http://localhost:9000{place}", headers=told, data=data)
    with mock.patch("botocore.auth.get_current_datetime", return_value=now):
        auth.S3SigV4Auth(Credentials(KEY, SECRET, "a-token"), "s3", "eu-west-1").add_auth(request)
    assert mine["Authorization"] == request.headers["Authorization"]


def test_keys_are_not_shown(store: Store) -> None:
    storage = Storage(f"s3a://{BUCKET}/x", access=store.access)
    assert KEY not in repr(storage)
    assert SECRET not in repr(storage)


def test_a_store_that_is_away_is_an_error(tmp_path: Path) -> None:
    away = Access("http://127.0.0.1:9", "us-east-1", True, KEY, SECRET)
    with pytest.raises(OSError, match="cannot be written") as problem:
        away.create("bucket/x", b"")
    assert SECRET not in str(problem.value)
