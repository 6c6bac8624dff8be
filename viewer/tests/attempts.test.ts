import { expect, test } from "vitest";
import { byRun } from "../src/attempts";

test("attempts of a run are grouped, newest first", () => {
  const facts = (runId: string, firstRunId = runId, attempt = 1) => ({ runId, firstRunId, attempt });
  const listed = [facts("b~2", "b", 2), facts("c"), facts("a~2"), facts("b"), facts("b~3", "b", 3)];
  expect(byRun(listed).map(({ runId }) => runId)).toEqual(["b~3", "b~2", "b", "c", "a~2"]);
});
