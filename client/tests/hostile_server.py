"""A server whose every string attacks the client's terminal."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

VISIBLE = "Visible"
HOSTILE = VISIBLE + "".join(
    [
        "\x1b]52;c;Y3VybCBldmlsLnNofHNoCg==\x1b\\", "\x1b]52;c;AAAA\x07", "\x1b]0;OWNED\x07", "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\",
        "\x1bP+q544e\x1b\\", "\x1b_apc\x1b\\", "\x1b[2J\x1b[H\x1b[1A\x1b[6n\x1b[?1049h\x1b[?25l\x1b[3q", "\x1b(0\x0elqqk\x0f", "\x1bc\x1b7\x1b#8",
        "\x1b[8mconcealed\x1b[28m", "\x1b[30;40mblack\x1b[0m", "\x1b[97;107mwhite\x1b[38;5;16m\x1b[38;2;0;0;0m\x1b[48;2;0;0;0m\x1b[7m\x1b[5m",
        "\x1b[" + "1;" * 2000 + "m", "\x1b[31mred", "\x1b[", "\x9b2J\x9d0;C1\x9c\x90q\x9c\x85\x8d\x84", "\x00\x05\x07\x08\x0b\x0c\x7f",
        "\u202etxt.exe\u202c\u2066\u2067\u2068\u2069\u200e\u200f\u061c\ufeff\u2028\u2029\U000e0041", "\ud800", "\udfff",
        "[bold red]markup[/bold red][/] [link=http://evil]x[/link]", "e" + "\u0301" * 300, "語" * 3000, "\x1b]unterminated",
    ]
)  # fmt: skip
"""On one line; ``FORGING`` ends lines and cells too."""
FORGING = HOSTILE + "\nforged\tcell\r\x1b[1Aforged\r\nforged"


class HostileServer:
    """Answers each path in the API's form, with ``text`` for every string; with ``status`` it refuses all requests except health."""

    def __init__(self, text: str = FORGING) -> None:
        self.text = text
        self.status = 200
        self._http = _Http(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/api"

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, method: str, path: list[str], query: dict[str, str]) -> Any:
        """JSON, or bytes of a log."""
        if path == ["v1", "health"]:
            return {"status": "ok"}
        if self.status != 200:
            return {"code": self.status, "message": self.text}
        match (method, *path[1:]):
            case ("GET", "ui", "config"):
                login = dict.fromkeys(("issuer", "cliClientId", "cliRedirect", "scopes"), self.text)
                return {"auth": self.text, "version": self.text, "login": {**login, "parameters": {}}}
            case ("GET", "configuration"):
                chosen = dict.fromkeys(("fqn", "browser", "locator"), self.text)
                plugin = dict.fromkeys(("kind", "name", "problem", "fallback"), self.text)
                return {"chosen": {**chosen, "outputs": [self.text]}, "plugins": [plugin]}
            case ("GET", "catalog"):
                return {"runs": [{"fqn": self.text, **self._facts()}], "cursor": None}
            case ("GET", "catalog", "pipelines"):
                return {"pipelines": [{"fqn": self.text, "last": self._facts()}, {"fqn": self.text, "last": None}], "cursor": None}
            case ("GET", "catalog", "pipelines", _, "runs"):
                return {"runs": [self._facts()], "cursor": None}
            case ("GET", "catalog", "pipelines", _, "runs", _):
                return self._facts()
            case ("GET", "catalog", "pipelines", _, "runs", _, "explanation"):
                return {
                    "candidates": [self._explanation() | {"about": self.text}],
                    "fromLine": 1,
                    "complete": False,
                    "streaming": True,
                }
            case ("GET", "catalog", "pipelines", _, "runs", _, "grep"):
                match_ = {"line": 0, "text": self.text, "spans": [[9, 40], [12, 50], [60, 55], [-5, 90], [10**9, 10**9 + 1]]}
                return {"matches": [match_], "after": None, "total": 4, "invert": False}
            case ("GET", "services", _, "logs", _):
                return {"runs": [self.text.replace("/", "").replace(".", "")], "cursor": None}
            case ("GET", "services", _, "logs", _, "stream", _):
                return self._stream()
            case ("GET", "services", _, "logs", _, _, "download"):
                return (self.text + "\n").encode("utf-8", "surrogatepass")
            case ("GET", "services", _, "logs", _, _):
                return {"logs": self.text, "after": None, "total": 4, "streaming": False}
            case ("POST", "services", _, "logs", _, _):
                return {"position": self.text.encode("ascii", "ignore").decode().translate(dict.fromkeys(range(32)))}
            case ("POST", "services", _, "logs", _, _, "close"):
                return {"message": self.text}
            case ("GET", "events", _, _, "steps"):
                return {"steps": [self._step()], "after": None}
            case ("GET", "events", _, _, "completeness"):
                writer = {
                    "writer": self.text,
                    "opened": True,
                    "closed": False,
                    "count": None,
                    "visible": 0,
                    "missing": [[1, 2]],
                    "lastTimestamp": None,
                }
                return {"state": self.text, "sealed": False, "writers": [writer], "lost": [self.text], "after": None}
            case ("GET", "events", _, _, "log"):
                return {"text": self.text + "\n", "next": 1, "complete": True}
            case ("GET", "events", _, _):
                return {"events": [self._event(1), self._event(None)], "after": None}
            case ("GET", "pipeline-files"):
                names = dict.fromkeys(("level", "logger", "message", "fqn", "runId"), self.text)
                return {"events": [{**names, "time": 1, "line": 1}], "cursor": None, "leftOut": 1, "unsupported": 1}
            case ("GET", "pipeline-files", "files"):
                times = {"firstTime": 1, "lastTime": 1, "bytes": 1, "url": f"{self.url}/v1/store"}
                return {"files": [{**dict.fromkeys(("key", "format", "events", "complete"), self.text), **times}], "cursor": None}
            case ("GET", "store"):
                return self.text.encode("utf-8", "surrogatepass")
            case ("GET", "dead-letters"):
                names = dict.fromkeys(("pipeline", "handler", "fqn", "runId", "line", "storedAt"), self.text)
                return {"letters": [{**names, "bytes": 1}], "cursor": None}
            case ("GET", "dead-letters", _):
                event = dict.fromkeys(("level", "logger", "message", "step"), self.text) | {
                    "time": 1,
                    "data": {self.text: self.text},
                }
                facts = dict.fromkeys(("reason", "trace", "attempts", "failedAt", "resendRequestedAt"), self.text)
                return {**facts, "event": event, "truncated": True}
            case ("POST", "dead-letters", _, "resend"):
                return {"requestedAt": self.text}
            case ("DELETE", "dead-letters", _):
                return {"message": self.text}
            case ("GET", "archive", "files"):
                return {"records": [self._file()], "next": None}
            case ("POST", "archive", "files"):
                return {**self._file(), "id": self.text, "upload": {"method": "PUT"}, "warnings": [self.text]}
            case ("GET", "archive", "files", _, "metadata"):
                return self._file()["metadata"]
            case ("GET", "archive", "files", _, "data"):
                return (self.text + "\n").encode("utf-8", "surrogatepass")
            case ("GET", "archive", "latest", _, _):
                return self._file()
        raise LookupError(f"the hostile server does not know {method} {path}")

    def _facts(self) -> dict[str, Any]:
        figures = dict.fromkeys(("lines", "bytes", "startedMs", "lastAppendMs", "durationMs", "pendingBytes", "lastHeartbeatMs"), 1)
        names = (
            "runId",
            "status",
            "end",
            "lost",
            "outcome",
            "exitCode",
            "signal",
            "exception",
            "failedStep",
            "host",
            "command",
            "firstRunId",
            "method",
            "browser",
        )
        more = {"complete": False, "attempt": 2, "lostLines": self.text, "silentSinceMs": None, "explanation": self._explanation()}
        return {**dict.fromkeys(names, self.text), **more, **figures}

    def _explanation(self) -> dict[str, Any]:
        return {"line": 0, **dict.fromkeys(("text", "rule", "family", "score"), self.text)}

    def _file(self) -> dict[str, Any]:
        names = dict.fromkeys(("id", "hash", "what", "where", "path", "work_id"), self.text)
        urls = dict.fromkeys(("url", "http_url", "s3_url"), self.text)
        return {**urls, "size": 1, "metadata": {**names, "start": 1, "end": None}}

    def _step(self) -> dict[str, Any]:
        figures = {"durationMs": None, "lines": self.text, "errors": self.text, "complete": False}
        return {"step": "s", "name": self.text, "parent": self.text, "status": self.text, "note": self.text, **figures}

    def _event(self, timestamp: int | None) -> dict[str, Any]:
        more = {"data": {self.text: self.text}, "writer": self.text}
        return {"timestamp": timestamp, "level": self.text, "step": self.text, "message": self.text, **more}

    def _stream(self) -> bytes:
        frames = [
            {"eventType": "logs", "logs": self.text + "\n", "after": "4"},
            {"eventType": "complete", "after": "4", "reason": self.text},
        ]
        return "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames).encode()


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, hostile: HostileServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hostile = hostile


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Http

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        url = urlsplit(self.path)
        path = url.path.removeprefix("/api").strip("/").split("/")
        answer = self.server.hostile.answer(self.command, path, dict(parse_qsl(url.query)))
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(200 if path == ["v1", "health"] else self.server.hostile.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = _answer


@contextmanager
def hostile_server(text: str = FORGING) -> Iterator[HostileServer]:
    server = HostileServer(text)
    try:
        yield server
    finally:
        server.stop()
