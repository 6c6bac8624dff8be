import { expect, test } from "vitest";
import { FrameParser } from "../src/log/frames";

const STREAM = 'retry: 250\n\nid: 2\ndata: {"logs":"a\\nb\\n"}\n\n: heartbeat\n\nid: 3\ndata: first\ndata: second\n\n';

test.each([1, 2, 3, 7, 1000])("frames are parsed from chunks of %i characters", (size) => {
  const parser = new FrameParser();
  const frames = [];
  for (let at = 0; at < STREAM.length; at += size) frames.push(...parser.push(STREAM.slice(at, at + size)));
  expect(frames).toEqual([{ id: "2", data: '{"logs":"a\\nb\\n"}' }, { id: "3", data: "first\nsecond" }]);
  expect(parser.retryMs).toBe(250);
});

test("CRLF may be split between two chunks", () => {
  const parser = new FrameParser();
  expect([...parser.push("data: a\r"), ...parser.push("\n\r\ndata: b\r\n\r\n")]).toEqual([{ id: "", data: "a" }, { id: "", data: "b" }]);
});

test("an incomplete frame is ignored", () => {
  expect(new FrameParser().push("id: 9\ndata: lost\n")).toEqual([]);
});

test("one space after the colon is removed", () => {
  expect(new FrameParser().push("data:  x\n\ndata:y\n\n").map((frame) => frame.data)).toEqual([" x", "y"]);
});
