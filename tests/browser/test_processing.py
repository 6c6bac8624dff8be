"""The viewer's pages for operators. Processing pipelines: their status and its refresh, actions with confirmation, and missing
permissions. Their files and dead letters. The configuration: what is installed, and what is chosen for a name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict

import pytest
from playwright.sync_api import Locator, Page, expect

from chalicelib.routes.openapi_pipeline_files import SCHEMAS as FILE_SCHEMAS
from chalicelib.routes.openapi_pipelines import SCHEMAS
from tests.browser.fake import START_MS, FakeHandler, FakePipeline, FakeServer
from tests.browser.fake_output import FakeFile, FakeLetter
from tests.browser.test_viewer_for_everybody import violations

Serve = Callable[..., FakeServer]
HOSTILE = "<img src=x onerror=alert(1)>\u202e"
FULL = "OSError: no space left on device <b>/</b>"
NOON = "2026-11-21T12:00:00.000Z"


def audit() -> FakePipeline:
    """A pipeline with a handler that was disabled after too many failures."""
    at = {"run": "mysql.ingest/run-1", "line": 4710}
    failed = FakeHandler("files", "disabled", FULL, NOON, at, 1101)
    figures = {"lag_events": 12_345, "lag_s": 3_725.4, "runs": 3, "events": 8_123_456, "late": 1, "dead_letters": 7}
    return FakePipeline("audit", **figures, errors=1101, last_error=FULL, handlers=[failed, FakeHandler("mail")])  # type: ignore[arg-type]


def opened(page: Page, serve: Serve, *pipelines: FakePipeline) -> FakeServer:
    server = serve({})
    server.pipelines = list(pipelines)
    page.goto(f"{server.url}?pipelines")
    expect(page.locator("tbody")).to_have_count(len(pipelines))
    return server


def row(page: Page, name: str = "audit") -> Locator:
    return page.locator("tbody").filter(has=page.locator("th", has_text=name))


def test_the_fake_answers_as_it_is_agreed() -> None:
    assert list(asdict(audit())) == SCHEMAS["ProcessingPipeline"]["required"]
    assert list(asdict(FakeHandler(""))) == SCHEMAS["PipelineHandler"]["required"]
    assert sorted(FakeFile("k", [(0, "INFO", "")]).item()) == sorted(FILE_SCHEMAS["PipelineFile"]["required"])
    assert sorted(FakeLetter().item()) == sorted(SCHEMAS["DeadLetter"]["required"])
    assert sorted(FakeLetter().details()) == sorted(SCHEMAS["DeadLetterDetails"]["required"])


def test_one_sees_how_each_is(page: Page, serve: Serve) -> None:
    server = serve({})
    others = [
        FakePipeline("fresh", "new", None),
        FakePipeline("quiet", "silent"),
        FakePipeline("still", "disabled", replay_from=NOON),
    ]
    server.pipelines = [audit(), *others]
    server.problems = [{"file": "bad.yaml", "reason": "no yaml <b>"}]
    page.goto(server.url)
    page.get_by_role("link", name="Processing").click()
    expect(page).to_have_url(re.compile(r"\?pipelines$"))
    expect(page).to_have_title("Processing pipelines · Runlake")
    expect(page.locator("tbody")).to_have_count(4)
    assert row(page).locator(".figure").all_inner_texts()[:4] == ["12,345", "1 h 2 min", "8,123,456", "1,101"]
    expect(row(page)).to_contain_text("3 active runs · 1 late event · 7 events stored as dead letters below _dead/")
    files = row(page).get_by_role("listitem").first
    expect(files).to_contain_text(f"{FULL}. Since 2026-11-21 12:00:00")
    expect(files).to_contain_text("at line 4,711 of mysql.ingest/run-1")
    expect(files.locator(".badge")).to_have_text("Disabled")
    words = [page.locator("tr:not(.detail) .badge").nth(at).inner_text() for at in range(4)]
    assert words == ["Running", "New", "Silent", "Disabled"]
    expect(row(page, "still")).to_contain_text("A replay from 2026-11-21 12:00:00 on is pending")
    expect(page.locator(".problems")).to_have_text("bad.yaml: no yaml <b>")


def test_it_is_told_anew_while_the_page_is_open_and_the_server_may_be_away(page: Page, serve: Serve) -> None:
    pipeline = audit()
    server = opened(page, serve, pipeline)
    row(page).get_by_role("button", name="Disable mail").focus()
    pipeline.lag_events, pipeline.handlers[0].state = 17, "replaying"
    expect(row(page).locator(".figure").first).to_have_text("17", timeout=20_000)
    expect(row(page).locator(".handlers .badge").first).to_have_text("Catching up")
    expect(row(page).get_by_role("button", name="Disable mail")).to_be_focused()
    server.stop()
    expect(page.locator(".status")).to_contain_text("The server does not respond. Status as of", timeout=20_000)
    expect(row(page).locator(".figure").first).to_have_text("17")
    pipeline.lag_events = 0
    server.start()
    expect(row(page).locator(".figure").first).to_have_text("0", timeout=20_000)
    expect(page.locator(".status")).to_contain_text("As of")


@pytest.mark.behavior("The viewer disables, enables and replays pipelines after a confirmation.")
def test_to_disable_and_enable_says_what_will_happen_and_asks(page: Page, serve: Serve) -> None:
    server = opened(page, serve, audit())
    asked = page.get_by_role("dialog")
    row(page).get_by_role("button", name="Disable audit").click()
    expect(asked).to_contain_text("Disable audit?")
    expect(asked).to_contain_text("When it is enabled, it continues from its checkpoint")
    page.keyboard.press("Escape")
    assert server.changes == [], "nobody confirmed it"
    expect(row(page).get_by_role("button", name="Disable audit")).to_be_focused()
    page.keyboard.press("Enter")
    asked.get_by_role("button", name="Disable").click()
    expect(page.locator(".outcome")).to_have_text("audit is disabled.")
    row(page).get_by_role("button", name="Enable audit").click()
    expect(asked).to_contain_text("It continues from its checkpoint. At least 12,345 events are waiting.")
    asked.get_by_role("button", name="Enable").click()
    expect(page.locator(".outcome")).to_have_text("audit is enabled.")
    row(page).get_by_role("button", name="Enable files").click()
    expect(asked).to_contain_text("It receives the events it missed, from line 4,711 of mysql.ingest/run-1 on")
    asked.get_by_role("button", name="Enable").click()
    expect(row(page).locator(".handlers .badge").first).to_have_text("Catching up")
    row(page).get_by_role("button", name="Disable mail").click()
    expect(asked).to_contain_text("The pipeline's other handlers continue.")
    asked.get_by_role("button", name="Disable").click()
    expect(row(page)).to_contain_text("disabled by an operator")
    of = [("disable", {}), ("enable", {}), ("enable", {"handler": "files"}), ("disable", {"handler": "mail"})]
    assert server.changes == [("audit", *each) for each in of]


def test_a_replay_takes_a_time_and_says_what_it_does(page: Page, serve: Serve) -> None:
    server = opened(page, serve, audit())
    row(page).get_by_role("button", name="Replay").click()
    asked = page.get_by_role("dialog")
    expect(asked).to_contain_text("All 2 handlers receive all events from that time on again")
    asked.get_by_label("From").fill("2999-01-01T00:00")
    asked.get_by_role("button", name="Replay").click()
    expect(asked).to_contain_text("is in the future")
    assert server.changes == []
    asked.get_by_label("From").fill("2026-09-21T14:13:20")
    expect(asked).to_contain_text("All events from 2026-09-21 14:13:20 on")
    asked.get_by_role("button", name="Replay").click()
    expect(page.locator(".outcome")).to_have_text("The replay of audit was requested.")
    assert server.changes == [("audit", "replay", {"from": "2026-09-21T14:13:20.000Z"})]


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (403, "not permitted", "Changing this pipeline requires the scope admin for pipelines/audit."),
        (404, "there is none", "The pipeline does not exist anymore"),
        (503, "the store is away", "The change may have been applied: check before you retry."),
    ],
)
def test_a_change_that_is_refused_says_why(page: Page, serve: Serve, status: int, message: str, expected: str) -> None:
    server = opened(page, serve, audit())
    server.refusals["POST"] = (status, message)
    row(page).get_by_role("button", name="Disable audit").click()
    asked = page.get_by_role("dialog")
    asked.get_by_role("button", name="Disable").click()
    expect(asked.get_by_role("alert")).to_contain_text(expected)
    expect(asked.get_by_role("alert")).to_contain_text(f"Error: {message}.")
    assert violations(page) == []
    server.refusals.clear()
    asked.get_by_role("button", name="Disable").click()
    expect(page.locator(".outcome")).to_have_text("audit is disabled.")


def test_missing_permission_is_an_error_until_it_is_granted(page: Page, serve: Serve) -> None:
    server = opened(page, serve)
    expect(page.locator("main")).to_contain_text("There are no processing pipelines that you can administer.")
    server.refusals["GET"] = (403, "not permitted: ask for the scope admin of some names")
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_role("alert")).to_contain_text("You lack permission to see the processing pipelines")
    expect(page.get_by_role("alert")).to_contain_text("ask for the scope admin")
    assert violations(page) == []
    server.refusals.clear()
    server.pipelines = [audit()]
    page.get_by_role("button", name="Refresh").click()
    expect(row(page)).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_who_is_not_signed_in_is_asked_for_a_token(page: Page, serve: Serve) -> None:
    server = serve({}, "secret", "jwt")
    server.pipelines = [audit()]
    page.goto(f"{server.url}?pipelines")
    expect(page.get_by_role("dialog")).to_contain_text("scope admin")
    page.get_by_label("Token").fill("secret")
    page.keyboard.press("Enter")
    expect(row(page)).to_be_visible()


def test_hostile_names_stay_text(page: Page, serve: Serve) -> None:
    at = {"run": HOSTILE, "line": 0}
    handler = FakeHandler(HOSTILE, "failed", HOSTILE, NOON, at, 1)
    opened(page, serve, FakePipeline(HOSTILE, HOSTILE, last_error=HOSTILE, handlers=[handler]))
    assert page.locator("tbody th").text_content() == HOSTILE
    row(page, "img").get_by_role("button", name=re.compile("^Enable")).click()
    expect(page.get_by_role("dialog")).to_contain_text(HOSTILE)
    assert page.locator("main img, dialog img").count() == 0


def test_the_keyboard_alone_is_enough(page: Page, serve: Serve) -> None:
    server = serve({})
    server.pipelines = [audit()]
    page.goto(server.url)
    expect(page.locator("main")).to_contain_text("No runs yet")
    page.get_by_role("link", name="Processing").focus()
    page.keyboard.press("Enter")
    expect(row(page)).to_be_visible()
    for _ in range(7):  # the tabs, then the buttons: Refresh, Disable, Replay
        page.keyboard.press("Tab")
    expect(row(page).get_by_role("button", name="Replay")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_label("From")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".outcome")).to_contain_text("was requested")
    expect(row(page).get_by_role("button", name="Replay")).to_be_focused()
    assert [action for _, action, _ in server.changes] == ["replay"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_no_violation(page: Page, serve: Serve, theme: str, width: int) -> None:
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 800})
    caught = FakePipeline(
        "catching", handlers=[FakeHandler("a", "replaying", None, NOON), FakeHandler("b", "failed", "ImportError")]
    )
    opened(page, serve, audit(), caught, FakePipeline("quiet", "silent"), FakePipeline("n" * 80, "new", None))
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    row(page).get_by_role("button", name="Replay").click()
    page.get_by_label("From").fill("2999-01-01T00:00")
    assert violations(page) == []


def configured() -> dict[str, object]:
    """A configuration with a locator, an output and a plugin that cannot be used."""
    return {
        "browser": "runlog",
        "outputs": [{"name": "search", "kind": "opensearch", "url": f"https://x.org/{HOSTILE}"}],
        "locators": [{"pattern": "shop.*", "browser": "cloudwatch", "outputs": ["search", HOSTILE]}],
        "plugins": [
            {"kind": "browser", "name": "cloudwatch", "protocol": 1, "problem": None, "fallback": None},
            {"kind": "browser", "name": "acme", "protocol": None, "problem": f"is gone {HOSTILE}", "fallback": "runlog"},
        ],
        "chosen": None,
    }


@pytest.mark.behavior("The viewer shows the configuration, and what it chooses for the name of a pipeline.")
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_the_configuration_and_what_it_chooses_for_a_name(page: Page, serve: Serve, theme: str, width: int) -> None:
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page.set_viewport_size({"width": width, "height": 800})
    server = serve({})
    server.configuration = configured()
    page.goto(f"{server.url}?pipelines")
    page.get_by_role("link", name="Configuration").click()
    expect(page).to_have_url(re.compile(r"\?configuration$"))
    expect(page.get_by_role("table", name="Outputs")).to_contain_text('{"url":"https://x.org/<img src=x onerror=alert(1)>\\u202e"}')
    expect(page.get_by_role("table", name="Locators")).to_contain_text(HOSTILE)
    plugins = page.get_by_role("table", name="Plugins").locator("tbody tr")
    expect(plugins.first).to_contain_text("Ready")
    expect(plugins.last).to_contain_text(f"acmebrowserProblem is gone {HOSTILE}, runlog is used instead")
    chosen = page.locator(".answer")
    for name, answer in (
        ("shop.orders", f"BrowsercloudwatchOutputssearch, {HOSTILE}Locatorshop.*"),
        ("a/b", "invalid name fqn=a/b"),
        ("other.team", "you may not administer other.team"),
        ("hr.payroll", "BrowserrunlogOutputsnoneLocatorNone matches: the defaults"),
    ):
        page.keyboard.press("/")
        page.keyboard.press("Control+A")
        page.keyboard.type(name)
        expect(chosen).to_have_text(answer)
        assert violations(page) == []
        page.locator("main").focus()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    expect(page).to_have_url(re.compile(r"\?configuration&fqn=hr.payroll$"))
    server.configuration["browser"] = "cloudwatch"
    page.goto(f"{server.url}?configuration&fqn=a/b")
    expect(chosen).to_have_text("invalid name fqn=a/b")
    expect(page.locator("main")).to_contain_text("Browsercloudwatch")


def written(fake: FakeServer) -> None:
    """Three files: a large open one, one in Parquet, and one of hostile text."""
    many = [(START_MS + at, "ERROR" if at % 300 == 7 else "INFO", f"batch {at} of orders") for at in range(1200)]
    fake.output.files = [
        FakeFile("pipeline-files/mysql/2026-11-21/ingest/run/00000001.avro", many, "avro", complete=False),
        FakeFile("pipeline-files/mysql/2026-11-21/ingest/run/00000002.parquet", many[:3], "parquet"),
        FakeFile(
            "pipeline-files/mysql/2026-11-21/ingest/run/00000003.jsonl", [(START_MS, "WARNING", f"{HOSTILE}\x1b[31m\n{'x' * 5000}")]
        ),
    ]


@pytest.mark.behavior("The viewer lists files of pipelines, and shows the events in a file of any format that the server reads.")
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_files_are_chosen_listed_read_and_downloaded(page: Page, serve: Serve, theme: str, width: int) -> None:
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page.set_viewport_size({"width": width, "height": 800})
    server = serve({})
    written(server)
    page.goto(f"{server.url}?pipelines")
    page.get_by_role("link", name="Files", exact=True).click()
    expect(page.locator("main")).to_contain_text("Enter a namespace and an application")
    expect(page.locator("#bases option")).to_have_count(2)
    page.keyboard.press("/")
    for word in ("mysql", "ingest"):
        page.keyboard.type(word)
        page.keyboard.press("Tab")
    files = page.get_by_role("table", name="Files").locator("tbody tr")
    expect(files).to_have_count(3)
    expect(files.first).to_contain_text("144 KB1,2002026-11-21")
    expect(files.first).to_contain_text("Open")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("Escape")
    page.locator("main").focus()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"\?files&namespace=mysql&app=ingest&key=.*avro$"))
    events = page.get_by_role("table", name="Events").locator("tbody tr")
    expect(events).to_have_count(500)
    expect(page.locator(".facts").get_by_text("Open")).to_be_visible()
    assert (events.first.bounding_box() or {})["height"] < 100, "level and logger are each on one line"
    expect(events.nth(1).get_by_role("link")).to_have_attribute("href", "?p=mysql.ingest&r=run-1#L2")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(events).to_have_count(1000)
    page.keyboard.press("/")
    page.keyboard.type("batch 999 ")
    expect(page.locator("tbody tr:visible")).to_have_count(1)
    expect(page.locator(".status")).to_have_text("1 of 1,000 loaded rows contain the text.")
    expect(page).to_have_url(re.compile("find=batch"))
    page.get_by_label("Find in the loaded rows").fill("")
    page.get_by_label("Level of events").select_option("ERROR")
    expect(events).to_have_count(4)
    expect(page).to_have_url(re.compile("level=ERROR"))
    assert violations(page) == []
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.url.endswith("00000001.avro")
    page.get_by_role("link", name="List of files").click()
    files.nth(1).get_by_role("link").click()
    expect(page.locator(".outcome-text")).to_contain_text("This server cannot read Parquet (1 file)")
    server.output.files.pop(1)
    page.get_by_role("button", name="Download").click()
    expect(page.locator(".outcome-text")).to_contain_text("does not exist anymore")
    page.reload()
    expect(page.locator("main")).to_contain_text("This file does not exist anymore")
    page.goto(f"{server.url}?files&namespace=mysql&app=ingest&read=1&level=WARNING")
    expect(page.locator(".message-text")).to_contain_text("<img src=x onerror=alert(1)>U+202e", ignore_case=True)
    page.get_by_role("button", name="Show all 5,0").click()
    assert page.locator(".message-text").inner_text().endswith("x" * 5000)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_files_that_cannot_be_listed_say_why(page: Page, serve: Serve) -> None:
    server = serve({})
    page.goto(f"{server.url}?files&namespace=mysql&app=other")
    expect(page.locator(".status")).to_contain_text("There are no such files")
    page.get_by_label("Base").fill("none")
    page.get_by_label("Base").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("GET /v1/pipeline-files/bases lists them base='none'")
    assert violations(page) == []


@pytest.mark.behavior("The viewer lists dead letters, and sends them again or drops them after a confirmation.")
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_a_dead_letter_is_found_sent_again_and_dropped(page: Page, serve: Serve, theme: str, width: int) -> None:
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page.set_viewport_size({"width": width, "height": 800})
    server = opened(page, serve, audit())
    other = FakeLetter(handler="mail", line=7, reason="SMTPException: refused", next_reason="SMTPException: still refused")
    server.output.letters = [FakeLetter(reason=f"{HOSTILE}\x1b[1m", message=HOSTILE, data={"rows": 3}), other]
    row(page).get_by_role("link", name="Dead letters").click()
    expect(page).to_have_url(re.compile(r"\?dead&pipeline=audit$"))
    letters = page.get_by_role("table", name="Dead letters").locator("tbody tr")
    letters.nth(1).scroll_into_view_if_needed()
    expect(letters.nth(1)).to_contain_text("SMTPException: refused")
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("/")
    page.keyboard.type("smtp")
    expect(page.locator("tbody tr:visible")).to_have_count(1)
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.get_by_label("Handler").fill("mail")
    page.get_by_label("Handler").press("Enter")
    expect(letters).to_have_count(1)
    letters.first.get_by_role("link").click()
    expect(page.locator(".letter-text").first).to_have_text("42 tables found")
    expect(page.get_by_role("link", name="mysql.ingest/run-1 line 8")).to_have_attribute("href", "?p=mysql.ingest&r=run-1#L8")
    assert violations(page) == []
    again, asked = page.get_by_role("button", name="Send again…"), page.get_by_role("dialog")
    again.click()
    expect(asked).to_contain_text("It has failed in 4 attempts")
    asked.get_by_role("button", name="Send again").dblclick()
    expect(page.locator(".outcome-text")).to_contain_text("sends it at one of its next checkpoints")
    expect(again).to_have_attribute("aria-disabled", "true")
    assert server.output.changes == ["POST"]
    expect(page.locator(".outcome-text")).to_have_text("The handler failed again, at the 5th attempt: SMTPException: still refused")
    other.after_polls, other.next_reason = 0, None
    again.click()
    asked.get_by_role("button", name="Send again").click()
    expect(page.locator(".outcome-text")).to_contain_text("The handler has accepted the event")
    expect(page.locator(".acts")).to_be_hidden()
    page.goto(f"{server.url}?dead&pipeline=audit&handler=files&fqn=mysql.ingest&run=run-1&line=4710")
    expect(page.locator(".letter-text").first).to_contain_text("<img src=x onerror=alert(1)>U+202e", ignore_case=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Drop…").click()
    asked.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Drop…").click()
    asked.get_by_role("button", name="Drop").click()
    expect(page.locator(".outcome-text")).to_have_text("The letter is dropped.")
    page.get_by_role("link", name="Dead letters of this handler").click()
    expect(page.locator(".status")).to_contain_text("There are no dead letters that match")


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        ((403, "not permitted"), "require the scope admin for pipelines/audit"),
        ((409, "changed"), "The letter has changed meanwhile"),
        ((503, "away"), "The change may have been applied"),
        (None, "The letter does not exist anymore"),
    ],
)
def test_a_letter_that_cannot_be_changed_says_why(page: Page, serve: Serve, failure: tuple[int, str] | None, expected: str) -> None:
    server = serve({})
    letter = FakeLetter()
    server.output.letters, server.output.failure = [letter], failure
    page.goto(f"{server.url}?dead&pipeline=audit&handler=files&fqn=mysql.ingest&run=run-1&line=4710")
    page.get_by_role("button", name="Drop…").click()
    if failure is None:
        server.output.letters = []
    asked = page.get_by_role("dialog")
    asked.get_by_role("button", name="Drop").click()
    expect(asked.get_by_role("alert")).to_contain_text(expected)
    page.keyboard.press("Escape")
    if failure is None:
        expect(page.get_by_role("alert")).to_contain_text("There is no such dead letter")
        server.output.letters = [FakeLetter(is_admin=False)]
        page.get_by_role("button", name="Try again").click()
        expect(page.locator("#needed")).to_have_text(
            "Sending it again and dropping it require the scope admin for pipelines/audit."
        )
        page.get_by_role("button", name="Drop…").click(force=True)
        expect(asked).to_have_count(0)
        assert violations(page) == []
