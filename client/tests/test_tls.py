"""TLS: servers are verified, and the process does not end while OpenSSL reads the certificates."""

from __future__ import annotations

import datetime
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from runlake import Archive, UnavailableError, tls

_SRC = str(Path(__file__).parents[1] / "src")


class _Empty(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of ``localhost``, and its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    signed = (
        made.add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(True, None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + signed.public_bytes(Encoding.PEM))
    return path


@pytest.fixture
def port(authority: Path) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    with HTTPServer(("127.0.0.1", 0), _Empty) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def no_certificates() -> Iterator[None]:
    """As in a new process."""
    tls._loaded.cache_clear()
    yield
    tls._loaded.cache_clear()


@pytest.mark.parametrize(
    ("host", "is_known", "problem"),
    [
        ("localhost", True, ""),
        ("localhost", False, "certificate verify failed: self-signed certificate"),
        ("127.0.0.1", True, "certificate verify failed: IP address mismatch"),
    ],
)
def test_server_is_verified(
    host: str, is_known: bool, problem: str, port: int, authority: Path, no_certificates: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    if is_known:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    with Archive(f"https://{host}:{port}/api") as archive:
        if not problem:
            return archive.check_credentials()
        with pytest.raises(UnavailableError, match=problem):
            archive.check_credentials()


def test_thread_reads_no_certificates_at_the_end(no_certificates: None, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr(tls, "_ended", ended)
    ended.set()
    problems: list[UnavailableError] = []

    def read() -> None:
        try:
            tls.loaded()
        except UnavailableError as error:
            problems.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join()
    assert str(problems[0]) == "the program ends" and tls.loaded()


_ENDING = """
import atexit, threading, httpx
from unittest.mock import Mock
atexit.register(print, "the interpreter ends")
from runlake import tls
is_reading, is_ending = threading.Event(), threading.Event()
def read():
    is_reading.set()
    is_ending.wait()
    print("certificates are read")
    return Mock()
httpx.create_ssl_context = read
threading.Thread(target=tls.loaded, daemon=True).start()
is_reading.wait()
atexit.register(is_ending.set)
"""


@pytest.mark.slow
def test_end_of_the_interpreter_waits_for_certificates() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ENDING], capture_output=True, env={"PYTHONPATH": _SRC}, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["certificates are read", "the interpreter ends"]
