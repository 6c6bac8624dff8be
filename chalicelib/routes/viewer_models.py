"""Responses of the web viewer's API."""

from __future__ import annotations

from typing import Literal

from chalicelib.routes.schemas import ResponseModel


class ViewerConfig(ResponseModel):
    """How people show who they are on this stage, and the version that is deployed."""

    auth: Literal["jwt", "iam", "none"]
    version: str
