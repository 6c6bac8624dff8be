"""Parameters of SSM."""

from __future__ import annotations

from functools import cache

from aws_lambda_powertools.utilities.parameters import SSMProvider
from aws_lambda_powertools.utilities.parameters.exceptions import GetParameterError

from chalicelib.aws.clients import make_client
from chalicelib.errors import IdentityUnavailableError


def parameter_text(name: str) -> str:
    """A parameter as it is now. One request. Raises IdentityUnavailableError."""
    try:
        return str(_provider().get(name, decrypt=True, force_fetch=True))  # whoever asks keeps it
    except GetParameterError as error:
        raise IdentityUnavailableError(f"the parameter cannot be read reason={str(error)[:200]!r} name={name}") from error


@cache
def _provider() -> SSMProvider:
    return SSMProvider(boto3_client=make_client("ssm", region=None))
