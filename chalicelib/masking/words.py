"""The words at which finders begin, in lowercase if they are found in any case. Apart from the finders, whose expressions are compiled when
the first word is met."""

from __future__ import annotations

PEM = (b"-----begin ", b"-----end ")
PUTTY = (b"private-lines:",)
MASKED_KEY = (b"***private-key***",)
ACCESS_KEY_KINDS = (b"AKIA", b"ASIA", b"ABIA", b"ACCA")
JWT = b"eyJ"
SIGNATURES = (b"signature=", b"sig=")
COMMANDS = (
    b"curl", b"wget", b"mysql", b"mariadb", b"sshpass", b"redis-cli", b"docker login", b"podman login", b"sqlplus", b"sqlcmd", b"mongo",
    b"beeline", b"keytool", b"openssl", b"helm registry login", b"ldapsearch", b"ldapmodify", b"ldapadd", b"bcp",
    b"expdp", b"impdp",
)  # fmt: skip
_WHOSE_KEY = (
    "api", "access", "account", "private", "secret", "shared", "signing", "encryption", "app", "application", "license", "master",
    "subscription", "fernet", "hmac", "aes",
)  # fmt: skip
"""Whose key is secret, as in ``api_key``."""
KEYS = tuple(f"{whose}{between}key".encode() for whose in _WHOSE_KEY for between in ("", "_", "-", ".", " "))
AWS_KEYS = tuple(
    f"secret{between}{access}key".encode() for between in ("", "_", "-") for access in ("", "access", "access_", "access-")
)
QUOTED = (b'"pass"', b"'pass'", rb"\"pass\"")
"""Names that are secret only between quotes, as in a profile of dbt."""
REGISTRIES = (b'"auth"', rb"\"auth\"")
USERS = (b"auth=(", b"httpbasicauth(", b"basic_auth", b"auth.user.info")
"""Names of a user with its password."""
WORDS = (b"password", b"passwd", b"passphrase", b"passcode", b"_pass", b"pwd", b"secret", b"token", *QUOTED)


def may_name_secrets(name: str) -> bool:
    """Whether values under this name may be secret. May be true for others."""
    lowered = name.lower().encode(errors="replace")
    return b"key" in lowered or any(word in lowered for word in WORDS)
