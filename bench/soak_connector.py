"""A connector of the soak test: sends numbered lines in batches, echoes the cookie, retries as OpenMetadata's client does."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field

from aiohttp import ClientError, ClientSession, ClientTimeout

TRIES = 4
"""As OpenMetadata's client: a batch is retried three times, after 1, 2 and 4 s, then dropped."""
_MOST_LINES = 8
_TIMEOUT = ClientTimeout(total=30)


@dataclass
class Connector:
    """``acknowledged``: numbers of lines whose batch was answered with 200; ``sent``: numbers of all lines sent."""

    number: int
    url: str
    chance: random.Random
    cookie: str = ""
    sent: int = 0
    acknowledged: list[int] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)

    def line(self, number: int) -> str:
        """A unique line."""
        return f"connector {self.number:03d} line {number:07d} {'.' * (number % 50)}"

    async def work(self, session: ClientSession, turns: asyncio.Semaphore, stop: asyncio.Event) -> None:
        """Send batches until stopped. The first batch is empty and returns a position: without a position a retry is a new batch,
        so no lines are sent before."""
        while not self.cookie and not stop.is_set():
            async with turns:
                self.answers["opened"] += await self._posted(session, None) == "200"
        while not stop.is_set():
            first, count = self.sent, self.chance.randint(1, _MOST_LINES)
            self.sent += count
            text = "".join(self.line(number) + "\n" for number in range(first, first + count))
            if await self._delivered(session, turns, text):
                self.acknowledged += range(first, first + count)
            await asyncio.sleep(self.chance.uniform(0, 1))

    async def _delivered(self, session: ClientSession, turns: asyncio.Semaphore, text: str) -> bool:
        for attempt in range(TRIES):
            async with turns:
                answer = await self._posted(session, text)
            self.answers[answer] += 1
            self.answers["repeats"] += attempt > 0
            if answer == "200":
                return True
            if attempt + 1 < TRIES:
                await asyncio.sleep(2**attempt)
        self.answers["given up"] += 1
        return False

    async def _posted(self, session: ClientSession, text: str | None) -> str:
        headers = {"Content-Type": "application/json"} | ({"Cookie": self.cookie} if self.cookie else {})
        batch = {"connectorId": f"soak-{self.number}"} | ({} if text is None else {"logs": text})
        try:
            async with session.post(self.url, data=json.dumps(batch), headers=headers, timeout=_TIMEOUT) as answer:
                content = await answer.read()
                if answer.status == 200:
                    self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
                    self.answers["met again"] += json.loads(content).get("repeated", False)
                return str(answer.status)
        except (TimeoutError, ClientError):
            return "no answer"

    def violations(self, lines: list[str]) -> list[str]:
        """Violations in this connector's lines, which are in the order of the log."""
        own = [line for line in lines if line.startswith(f"connector {self.number:03d} ")]
        numbers = [int(line.split(" ")[3]) for line in own]
        wrong = [f"connector {self.number}: {what}" for what, is_so in (
            ("a line is there twice", len(set(numbers)) < len(numbers)),
            ("lines are out of order", sorted(numbers) != numbers),
            (f"{len(set(self.acknowledged) - set(numbers))} acknowledged lines are lost", not set(self.acknowledged) <= set(numbers)),
            ("a line was changed", any(line != self.line(number) for line, number in zip(own, numbers, strict=True))),
            ("a line was never sent", bool(numbers) and max(numbers) >= self.sent),
        ) if is_so]  # fmt: skip
        return wrong
