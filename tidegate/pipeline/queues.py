"""Queues between operators: first in, first out; with piggybacking, at most one message in each."""

from __future__ import annotations

from collections import deque

from tidegate.pipeline.elements import Element


class Queue:
    """`put` at one end, `take` at the other."""

    def __init__(self, piggyback: bool = False) -> None:
        self._piggyback = piggyback
        self._elements: deque[Element] = deque()

    def __len__(self) -> int:
        return len(self._elements)

    @property
    def head(self) -> Element:
        return self._elements[0]

    def put(self, element: Element) -> None:
        """Add an element. With piggybacking it carries the message that stands last, if one does, and that goes (section 6).

        >>> from tidegate.pipeline.elements import Kind
        >>> queue = Queue(piggyback=True)
        >>> queue.put(Element(Kind.EXPIRED, (4,), 10, 10))
        >>> queue.put(Element(Kind.POSITIVE, (4,), 11, 16))
        >>> len(queue), queue.head.kind, queue.head.since
        (1, <Kind.POSITIVE: 'positive'>, 10)
        """
        if self._piggyback:
            since = element.since
            if self._elements and self._elements[-1].tells_time_only:
                replaced = self._elements.pop().time
                since = replaced if since is None else min(replaced, since)
            element = Element(element.kind, element.row, element.ts, element.ets, since)
        self._elements.append(element)

    def take(self) -> Element:
        return self._elements.popleft()
