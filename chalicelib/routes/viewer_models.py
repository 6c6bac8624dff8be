"""Responses of the web viewer's API."""

from __future__ import annotations

from typing import Literal

from chalicelib.routes.schemas import ResponseModel, Uri


class LoginConfig(ResponseModel):
    """How people log in with OpenID Connect (RFC 8414, PKCE): at which issuer, as which client of it, with which parameters."""

    issuer: Uri
    clientId: str
    cliClientId: str
    cliRedirect: Uri
    scopes: str
    parameters: dict[str, str]


class ViewerConfig(ResponseModel):
    """How people show who they are on this stage, and the version that is deployed. Without ``login`` they need a token."""

    auth: Literal["jwt", "iam", "none"]
    version: str
    login: LoginConfig | None
