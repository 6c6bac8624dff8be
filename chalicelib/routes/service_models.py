"""Responses about the service itself: health and version."""

from __future__ import annotations

from typing import Literal

from chalicelib.routes.schemas import ResponseModel


class Health(ResponseModel):
    """The function runs and its settings are valid. Other services are not checked."""

    status: Literal["ok"] = "ok"
    version: str


class Build(ResponseModel):
    """The deployed version, as the datalake's protocol nests it."""

    version: str


class EnvironmentData(ResponseModel):
    """The data of ``Environment``."""

    build: Build


class Environment(ResponseModel):
    """The deployed version."""

    data: EnvironmentData
