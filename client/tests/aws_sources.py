"""Where programs on AWS get their credentials from: the metadata of an instance and of a container, STS, and IAM Identity Center."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_ROLE = "orders-writer"
_STS = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
<Credentials><AccessKeyId>{AccessKeyId}</AccessKeyId><SecretAccessKey>{SecretAccessKey}</SecretAccessKey><SessionToken>{Token}</SessionToken>
<Expiration>{Expiration}</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""

_ERROR = "<ErrorResponse><Error><Type>Sender</Type><Code>{}</Code><Message>the token\nis refused</Message></Error></ErrorResponse>"


@dataclass
class Sources:
    """``keys``: access keys that it hands out, one each time, the last again and again; their secrets are these with ``-secret``, their session
    tokens with ``-token``. ``valid_s``: for how long they say they are valid."""

    url: str = ""
    keys: list[str] = field(default_factory=lambda: ["AKFIRST"])
    valid_s: float = 3600.0
    error: tuple[int, str] | None = None
    """Status and code of each answer of STS."""
    asked: list[str] = field(default_factory=list)
    """Paths of requests that were answered with credentials."""

    def credentials(self, path: str) -> dict[str, str]:
        self.asked.append(path)
        key = self.keys.pop(0) if len(self.keys) > 1 else self.keys[0]
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.valid_s))
        secret = {"AccessKeyId": key, "SecretAccessKey": f"{key}-secret", "Token": f"{key}-token", "Expiration": until}
        return {"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": until, **secret}


@contextmanager
def aws_sources() -> Iterator[Sources]:
    sources = Sources()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Nothing."""

        def do_PUT(self) -> None:
            self._send("a token of the metadata service", {"x-aws-ec2-metadata-token-ttl-seconds": "300"})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            if sources.error:
                return self._send(_ERROR.format(sources.error[1]), status=sources.error[0])
            self._send(_STS.format(**sources.credentials(self.path)))

        def do_GET(self) -> None:
            if self.path.endswith("/security-credentials/"):
                return self._send(_ROLE)
            found = sources.credentials(self.path)
            if "/federation/credentials" in self.path:
                names = {"accessKeyId": "AccessKeyId", "secretAccessKey": "SecretAccessKey", "sessionToken": "Token"}
                role = {name: found[field] for name, field in names.items()} | {
                    "expiration": (time.time() + sources.valid_s) * 1000
                }
                return self._send(json.dumps({"roleCredentials": role}))
            self._send(json.dumps(found))

        def _send(self, text: str, headers: dict[str, str] | None = None, status: int = 200) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(text.encode())), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        sources.url = f"http://127.0.0.1:{http.server_address[1]}"
        yield sources
        http.shutdown()
        thread.join()
