"""Signed deliveries: what happened is told to the receiver, kept, and can be told again under its id."""

import hashlib
import hmac
import json
import queue
import random
import threading
import time
import uuid
from typing import Any

import httpx

from bot.demo.github.faults import Faults
from bot.demo.github.state import APP_ID, INSTALLATION_ID, Attempt, Delivery, State, now

TIMEOUT_S = 10.0  # GitHub waits this long for an answer


class Hooks:
    """Sends deliveries one after the other from a thread; with no `url` they are only kept."""

    def __init__(self, state: State, url: str | None, secret: str, faults: Faults) -> None:
        self.state = state
        self.url = url
        self.secret = secret
        self.faults = faults
        self._waiting: queue.Queue[tuple[Delivery, bool] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="hooks", daemon=True)
        self._thread.start()

    def emit(self, event: str, action: str, payload: dict[str, Any], sender: dict[str, Any]) -> Delivery:
        """Keep a delivery and queue it."""
        whole = {"action": action, **payload, "sender": sender, "installation": {"id": INSTALLATION_ID}}
        if not action:
            del whole["action"]
        guid = str(uuid.uuid4())
        body = json.dumps(whole).encode()
        delivery = Delivery(self.state.new_id(), guid, event, action, body, now())
        self.state.deliveries.append(delivery)
        for _ in range(2 if self.faults.duplicate_deliveries else 1):
            self._waiting.put((delivery, False))
        return delivery

    def redeliver(self, delivery: Delivery) -> None:
        """Send a kept delivery again: same id, same body."""
        self._waiting.put((delivery, True))

    def drain(self, timeout_s: float = 30.0) -> bool:
        """Wait until everything queued was sent; False where that took too long."""
        end = time.monotonic() + timeout_s
        while self._waiting.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.02)
        return not self._waiting.unfinished_tasks

    def close(self) -> None:
        """Stop sending."""
        self._waiting.put(None)
        self._thread.join(timeout=TIMEOUT_S + 1)

    def headers(self, delivery: Delivery) -> dict[str, str]:
        """Return a delivery's headers; the signature is over its raw bytes."""
        signature = hmac.new(self.secret.encode(), delivery.body, hashlib.sha256).hexdigest()
        return {
            "Content-Type": "application/json",
            "User-Agent": "GitHub-Hookshot/standin",
            "X-GitHub-Event": delivery.event,
            "X-GitHub-Delivery": delivery.guid,
            "X-GitHub-Hook-ID": "1",
            "X-GitHub-Hook-Installation-Target-ID": str(APP_ID),
            "X-GitHub-Hook-Installation-Target-Type": "integration",
            "X-Hub-Signature-256": f"sha256={signature}",
        }

    def _work(self) -> None:
        with httpx.Client(timeout=TIMEOUT_S) as client:
            while True:
                batch = [self._waiting.get()]
                if self.faults.shuffle_deliveries:
                    time.sleep(0.2)
                    while not self._waiting.empty():
                        batch.append(self._waiting.get())
                    random.shuffle(batch)
                for waiting in batch:
                    if waiting is not None:
                        self._send(client, *waiting)
                    self._waiting.task_done()
                if None in batch:
                    return

    def _send(self, client: httpx.Client, delivery: Delivery, again: bool) -> None:
        if self.url is None or self.faults.drop_deliveries:
            return
        try:
            code = client.post(self.url, content=delivery.body, headers=self.headers(delivery)).status_code
        except httpx.HTTPError:
            code = 0
        if again:
            if delivery.first_code is None:
                delivery.first_code = delivery.status_code
            delivery.again.append(Attempt(self.state.new_id(), now(), code))
        delivery.status_code = code
