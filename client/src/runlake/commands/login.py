"""Commands about who one is: login, logout, whoami."""

from __future__ import annotations

import time
import webbrowser
from typing import Any

import click

from runlake.archive import Archive
from runlake.commands.output import report, show_json, show_rows, show_text, time_of
from runlake.commands.page import has_display
from runlake.commands.session import Session, json_option, pass_session
from runlake.errors import AccessError, LoginError, RunlakeError, SettingsError
from runlake.logins import Login, LoginFile, claims_of
from runlake.names import public_url
from runlake.settings import Settings

_WAIT_S = 300.0


@click.command()
@click.option("--device", is_flag=True, help="Confirm a code on another device, where this machine has no browser.")
@pass_session
def login(session: Session, device: bool) -> None:
    """Log in at the server's issuer, for all commands with this profile and address.

    \b
    Examples:
      runlake login
      runlake --profile test login --device

    Opens the browser; without a display, prints an address with a code to confirm on another device. The tokens are stored next to the settings
    file, for you alone, and renewed when necessary. A token of the settings takes precedence.
    """
    from runlake.openid import Provider, is_private

    settings = session.settings()
    file = _file_of(settings)
    if not is_private(settings.required_url()):
        raise SettingsError(
            f"a login would not be private: the server's address is not https:// url={public_url(settings.url)}",
            next_step="give the address with https://",
        )
    config = _config_of(settings)
    file.check_issuer(config)
    provider = Provider(config)
    tokens = _by_device(provider) if _is_for_device(provider, device) else _by_browser(provider)
    stored = file.store(provider.config, tokens)
    report(f"logged in at {provider.config.host}{_as(stored)} for {public_url(settings.url)}")
    if not tokens.refresh_token:
        report(f"the issuer gave no refresh token: the login ends {_end_of(stored)}")
    if origin := settings.token_form:
        report(f"the {origin} ({settings.origins[origin]}) takes precedence: unset it to use the login")


@click.command()
@pass_session
def logout(session: Session) -> None:
    """Forget the login with this profile and address, and have the issuer end it.

    The session of the browser at the issuer remains.
    """
    from runlake.openid import Provider

    settings = session.settings()
    removed = _file_of(settings).remove()
    if removed is None:
        report(f"nobody was logged in for {public_url(settings.url)}")
        return
    try:
        Provider(removed.config).revoke(removed.tokens)
    except RunlakeError as error:
        report(f"the login is forgotten here, but the issuer could not be told: {error}")
    report(f"logged out of {public_url(settings.url)}")


@click.command()
@click.option("--token", "is_for_program", is_flag=True, help="Print the token alone, renewed if necessary, for another program.")
@json_option
@pass_session
def whoami(session: Session, is_for_program: bool, as_json: bool) -> None:
    """Show who the server takes you for: issuer, subject and end of the token, where it is from, and whether the server accepts it.

    \b
    Examples:
      runlake whoami
      make smoke URL=https://logs.example.com TOKEN="$(runlake whoami --token)"
    """
    settings = session.settings()
    url = settings.required_url()
    if is_for_program:
        show_text(_token_of(settings, url))
        return
    rows: dict[str, Any] = {"server": public_url(url)}
    origin = settings.token_form
    if settings.signer(url):
        rows["credentials"] = "of AWS: requests are signed"
    elif (token := settings.token_for(url).value()) is None:
        rows["credentials"] = "none"
    else:
        stored = None if origin else _file_of(settings).read()
        claims = claims_of(token)
        rows |= {
            "credentials": f"the {origin} ({settings.origins[origin]})" if origin else "a login",
            "person": stored.person if stored else "",
            "issuer": claims.get("iss", stored.config.issuer if stored else ""),
            "subject": claims.get("sub", ""),
            "until": _end_of(stored) if stored else _time_of(claims.get("exp")),
            "renewed": ("yes" if stored.tokens.refresh_token else "no") if stored else "",
        }
    with session.archive() as archive:
        try:
            archive.check_credentials()
        except AccessError as error:
            if rows["credentials"] == "none":
                error.next_step = "log in with `runlake login`, or set a token"
            raise
    rows["accepted"] = "yes"
    shown = {name: str(value) for name, value in rows.items() if value}
    if as_json:
        show_json(shown)
    else:
        show_rows(("", ""), list(shown.items()))


def _token_of(settings: Settings, url: str) -> str:
    if settings.signer(url):
        raise SettingsError(
            f"requests to this address are signed with AWS credentials, without a token url={public_url(url)}",
            next_step="choose a profile with the address of the page",
        )
    token = settings.token_for(url).value()
    if token is None:
        raise AccessError(401, "there is no token", next_step="log in with `runlake login`, or set a token")
    return token


def _file_of(settings: Settings) -> LoginFile:
    url = settings.required_url()
    if settings.signer(url):
        raise SettingsError(
            f"requests to this address are signed with AWS credentials url={public_url(url)}",
            next_step="log in to a profile with the address of the page, or see `runlake whoami`",
        )
    return settings.login_file(url)


def _config_of(settings: Settings) -> Any:
    from runlake.openid import LoginConfig

    with Archive(settings.required_url(), timeout_s=settings.timeout_s) as archive:
        config = LoginConfig.parse(archive.page_config())
    if config is None:
        raise LoginError(
            f"people do not log in at this server url={public_url(settings.url)}",
            next_step="set a token (--token-file, RUNLAKE_TOKEN), or ask the operator for a login",
        )
    return config


def _is_for_device(provider: Any, is_chosen: bool) -> bool:
    return is_chosen or (not has_display() and provider.has_device_codes)


def _by_device(provider: Any) -> Any:
    code = provider.device_code()
    show_text(f"Open {code.address} on any device, and enter the code {code.user_code}")
    return provider.tokens_of_device(code)


def _by_browser(provider: Any) -> Any:
    from runlake.loopback import Loopback
    from runlake.openid import Attempt

    attempt = Attempt.begin()
    with Loopback(provider.config.redirect) as loopback:
        address = provider.address_of(attempt, loopback.address)
        if has_display() and webbrowser.open(address):
            report(f"the browser opens {provider.config.host}; if it does not, open this address:")
        else:
            port = loopback.address.split(":")[2].split("/")[0]
            report(f"open this address on this machine, or on another one after `ssh -L {port}:127.0.0.1:{port}` to this:")
        show_text(address)
        answer = loopback.answer(attempt.is_answer, _WAIT_S)
        if answer is None:
            raise LoginError(f"nobody logged in within {_WAIT_S / 60:.0f} minutes")
        return provider.tokens_of_code(attempt, answer, loopback.address)


def _as(login: Login) -> str:
    return f" as {login.person}" if login.person else ""


def _end_of(login: Login) -> str:
    return _time_of(login.tokens.ends_s) or "at a time that the issuer does not say"


def _time_of(at_s: object) -> str:
    return time_of(int(at_s * 1000)) if isinstance(at_s, (int, float)) and 0 < at_s < time.time() + 10**9 else ""
