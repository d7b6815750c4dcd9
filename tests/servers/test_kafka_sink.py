"""A topic takes each epoch once, whole or not at all, whoever dies in between."""

from __future__ import annotations

import pytest

from tests.servers.kafka import Broker
from tidegate.connectors.kafka_sink import KafkaSink
from tidegate.errors import Diagnostic


def opened(broker: Broker, topic: str) -> KafkaSink:
    return KafkaSink(broker.servers, topic, {"bootstrap.servers": broker.servers})


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [m.value() for m in broker.committed(topic)]


def test_an_epoch_that_was_not_committed_is_not_there_and_comes_again(broker: Broker) -> None:
    topic = broker.topic("sunk")
    first = opened(broker, topic)
    assert first.owner is None
    first.claim("me")
    first.deliver(1, [("k", "a")])
    # Produced, not committed: as if the program had died here.
    first._producer.begin_transaction()
    first._producer.produce(topic, "lost", "k")
    first._producer.flush(10)
    second = opened(broker, topic)
    second.claim("me")
    assert second.has(1)
    assert not second.has(2)
    second.deliver(2, [("k", None)])
    assert values(broker, topic) == [b"a", None]
    # The first one is shut out.
    with pytest.raises(Diagnostic, match="does not take epoch 3"), first._named(3):
        first._producer.commit_transaction(10)
    assert values(broker, topic) == [b"a", None]


def test_a_topic_holds_the_answer_of_one_query(broker: Broker) -> None:
    topic = broker.topic("owned")
    opened(broker, topic).claim("me")
    other = opened(broker, topic)
    other.claim("you")
    assert other.owner == "me"


def test_epochs_outlive_a_broker_that_is_killed(broker: Broker) -> None:
    topic = broker.topic("outlived")
    sink = opened(broker, topic)
    sink.claim("me")
    sink.deliver(1, [(None, str(i)) for i in range(100)])
    broker.stop(kill=True)
    broker.start()
    again = opened(broker, topic)
    again.claim("me")
    assert again.has(1)
    again.deliver(2, [(None, "last")])
    assert values(broker, topic) == [*(str(i).encode() for i in range(100)), b"last"]
