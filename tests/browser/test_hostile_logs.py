"""Hostile text in a log remains text within its line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.fake import FakeRun, FakeServer

HOSTILE = [
    '<script>window.owned = 1</script><img src=x onerror="window.owned = 1"><svg onload=alert(1)>',
    "</span></div><a href='javascript:window.owned=1'>click</a><style>*{display:none}</style>&lt;b&gt;",
    "\x1b[31mred\x1b[0m \x1b[1;44mbold on blue\x1b[0m \x1b[38;2;255;255;0mbright yellow\x1b[0m",
    "\x1b]0;owned\x07\x1b[2J\x1b[H\x1b[?1049h\x1b]8;;javascript:window.owned=1\x1b\\a link\x1b]8;;\x1b\\\x1bc after",
    "\x1b[31;<img src=x onerror=window.owned=1>m",
    "user\u202etxt.exe\u2066 and \u0000 \u0007 \u0008 over \u2028 \u0085",
    "‮שלום עולם, ERROR in Hebrew, 123‬ مرحبا",
    "z" + "\u0300\u0301\u0302" * 400,
    "\ufffd\ufffd broken bytes \U0001f600 and \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "javascript:window.owned=1//https://example.com/?q=<b>",
    "10 %\r<b>50 %\r\x1b[2K\x1b[32m100 %\r",
    "see https://example.com/<b>, javascript:alert(1), https://user@example.com",
    "",
    "plain",
]
LONG = "A" * 500_000 + "needle" + "B" * 500_000


def opened(page: Page, serve: Callable[..., FakeServer], lines: list[str]) -> None:
    server = serve({"<b>fqn</b>\u202e": [FakeRun("<img src=x onerror=window.owned=1>", lines)]})
    page.goto(f"{server.url}?list")
    page.locator("tbody a").first.click()
    page.locator("tbody a").first.click()
    expect(page.locator(".row")).to_have_count(len(lines))
    expect(page.locator(".absent")).to_have_count(0)


@pytest.mark.behavior("The viewer shows markup in a log as text.")
def test_markup_stays_text(page: Page, serve: Callable[..., FakeServer]) -> None:
    opened(page, serve, HOSTILE)
    page.get_by_label("Search in this run").fill("owned")
    expect(page.locator(".matches")).to_contain_text("of 5 lines")
    assert page.evaluate("window.owned") is None
    assert page.locator(".log :is(script, img, svg, style, iframe, a:not(.number, .link))").count() == 0
    assert page.locator("header img").count() == 0
    assert page.locator('[data-line="0"] .text').text_content() == HOSTILE[0]
    assert page.locator('[data-line="1"] .text').text_content() == HOSTILE[1]
    assert page.title().startswith("<img src=x")
    link = page.locator(".log a.link")
    expect(link).to_have_text("https://example.com/")
    attributes = [link.get_attribute(name) for name in ("href", "target", "rel")]
    assert attributes == ["https://example.com/", "_blank", "noopener noreferrer nofollow"]
    overwritten = page.locator('[data-line="10"] .text')
    assert (overwritten.text_content() or "").startswith("100 %")
    overwritten.get_by_role("button", name="2 earlier states").click()
    assert page.locator(".full-line").text_content() == "10 %\n<b>50 %\n100 %"


def test_escapes_of_terminals_colour_and_do_nothing_else(page: Page, serve: Callable[..., FakeServer]) -> None:
    opened(page, serve, HOSTILE)
    coloured = page.locator('[data-line="2"] .text')
    assert coloured.text_content() == "red bold on blue bright yellow"
    assert page.locator(".fg-1").text_content() == "red"
    assert page.locator(".fg-any").evaluate("node => getComputedStyle(node).color") != "rgb(255, 255, 0)", "it could not be read"
    assert page.locator('[data-line="3"] .text').text_content() == "a link after"
    assert "owned" not in page.title().partition("·")[2]


def test_control_characters_and_other_directions_stay_in_their_line(page: Page, serve: Callable[..., FakeServer]) -> None:
    opened(page, serve, HOSTILE)
    signs = page.locator('[data-line="5"] .control')
    assert signs.all_text_contents() == ["U+202E", "U+2066", "␀", "␇", "␈", "U+2028", "U+0085"]
    for number in range(len(HOSTILE)):
        box = page.locator(f'[data-line="{number}"]').bounding_box()
        assert box and box["height"] == 20, "one row, whatever is in it"
        place = page.locator(f'[data-line="{number}"] .number').bounding_box()
        assert place and place["x"] == 0
    assert page.locator('[data-line="7"] .text').evaluate("node => getComputedStyle(node).overflowY") == "clip"


def test_a_line_of_a_megabyte_is_cut_and_shown_on_demand(page: Page, serve: Callable[..., FakeServer]) -> None:
    opened(page, serve, ["before", LONG, "after"])
    cut = page.locator('[data-line="1"] .text')
    assert len(cut.text_content() or "") < 5_000
    page.get_by_label("Search in this run").fill("needle")
    expect(page.locator(".matches")).to_have_text("1 of 1 line")
    page.get_by_role("button", name="show all").evaluate("button => button.click()")
    expect(page.locator(".full-line")).to_be_visible()
    assert page.locator(".full-line").text_content() == LONG


def test_a_log_of_long_lines_is_not_fetched_whole(page: Page, serve: Callable[..., FakeServer]) -> None:
    server = serve({"svc": [FakeRun("run", ["C" * 900_000] * 200)]})
    page.goto(f"{server.url}?p=svc&r=run")
    expect(page.locator('[data-line="20"] .more')).to_be_attached()
    page.wait_for_timeout(3_000)
    assert sum("after=" in path for path, _ in server.asked) < 120
