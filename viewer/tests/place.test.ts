import { expect, test } from "vitest";
import { addressOf, parseLines, parsePlace, type Place } from "../src/place";

test.each<Place>([
  {},
  { prefix: "mysql." },
  { fqn: "svc.pipeline" },
  { fqn: "svc/with slash & more?", runId: "run=1#2" },
  { fqn: "שירות.日本", runId: "ß", lines: { from: 9, to: 19 } },
  { fqn: "a", runId: "b", lines: { from: 0, to: 0 } },
  { fqn: "a", runId: "b", step: "compile/1 ü", lines: { from: 0, to: 2 } },
])("an address leads back to its place: %j", (place) => {
  const address = new URL(addressOf(place), "http://host/api/v1/ui/");
  expect(parsePlace(address.search, address.hash)).toEqual(place);
});

test("lines count from one, in either order", () => {
  expect(parseLines("#L10-L20")).toEqual({ from: 9, to: 19 });
  expect(parseLines("#L20-10")).toEqual({ from: 9, to: 19 });
  expect(parseLines("#L1")).toEqual({ from: 0, to: 0 });
  expect(parseLines("#L0")).toEqual({ from: 0, to: 0 });
});

test.each(["", "#", "#Lx", "#L", "#L1-", "#main", "#L9999999999999999999"])("%j names no lines", (hash) => {
  expect(parseLines(hash)).toBeUndefined();
});
