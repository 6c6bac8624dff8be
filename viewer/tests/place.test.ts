import { expect, test } from "vitest";
import { DEFAULT, OUTCOMES } from "../src/start/filter";
import { addressOf, parseLines, parsePlace, type Place } from "../src/place";

test.each<Place>([
  { filter: DEFAULT },
  { filter: { outcomes: ["failed", "lost"], period: "7d", text: "ab/c & d", order: { column: "duration", isDescending: true } } },
  { filter: { ...DEFAULT, outcomes: OUTCOMES, order: { column: "pipeline", isDescending: false } } },
  { isList: true },
  { isConfiguration: true },
  { files: {} },
  { files: { namespace: "mysql", app: "in gest&", key: "a/b~1.log", from: "2026-11-21T12:00:00.000Z", find: "ü" } },
  { letters: { pipeline: "audit", handler: "files", fqn: "a.b", run: "r=1", line: "0" } },
  { isConfiguration: true, chosenFor: "shop.& ü" },
  { isList: true, contains: "mysql." },
  { fqn: "svc.pipeline" },
  { fqn: "svc/with slash & more?", runId: "run=1#2" },
  { fqn: "שירות.日本", runId: "ß", lines: { from: 9, to: 19 } },
  { fqn: "a", runId: "b", lines: { from: 0, to: 0 } },
  { fqn: "a", runId: "b", step: "compile/1 ü", lines: { from: 0, to: 2 } },
  { fqn: "a", runId: "b", search: { text: "a&b,c #x", isRegex: false, isCaseIgnored: true } },
  { fqn: "a", runId: "b", search: { text: "^x+", isRegex: true, isCaseIgnored: false, only: 3 }, lines: { from: 4, to: 4 } },
])("the URL of a place parses to the same place: %j", (place) => {
  const address = new URL(addressOf(place), "http://host/api/v1/ui/");
  expect(parsePlace(address.search, address.hash)).toEqual(place);
});

test("earlier and unknown URLs", () => {
  expect(parsePlace("?q=orders", "")).toEqual({ isList: true, contains: "orders" });
  expect(parsePlace("?q=orders&p=a", "")).toEqual({ fqn: "a" });
  expect(parsePlace("?p=a&r=b&q=x&only=many", "").search?.only).toBe(0);
  expect(parsePlace("?p=a&r=b&only=3", "")).toEqual({ fqn: "a", runId: "b" });
  expect(parsePlace("?outcome=burnt&within=3y&sort=-size", "")).toEqual({ filter: DEFAULT });
  expect([addressOf({}), addressOf({ filter: DEFAULT })]).toEqual(["./", "./"]);
  expect(addressOf({ filter: { ...DEFAULT, outcomes: ["failed", "lost"] } })).toBe("?outcome=failed,lost");
});

test("a URL printed by `runlake` is parsed", () => {
  const address = new URL("https://host/api/v1/ui/?p=a%20b%2B%2F%26%3F%23%25%C3%BC&r=run%3D1%2B2");
  expect(parsePlace(address.search, address.hash)).toEqual({ fqn: "a b+/&?#%ü", runId: "run=1+2" });
});

test("lines count from 1, in either order", () => {
  expect(parseLines("#L10-L20")).toEqual({ from: 9, to: 19 });
  expect(parseLines("#L20-10")).toEqual({ from: 9, to: 19 });
  expect(parseLines("#L1")).toEqual({ from: 0, to: 0 });
  expect(parseLines("#L0")).toEqual({ from: 0, to: 0 });
});

test.each(["", "#", "#Lx", "#L", "#L1-", "#main", "#L9999999999999999999"])("%j contains no lines", (hash) => {
  expect(parseLines(hash)).toBeUndefined();
});
