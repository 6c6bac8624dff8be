import { expect, test } from "vitest";
import { FrameParser } from "../src/log/frames";

const STREAM = 'retry: 250\n\nid: 2\ndata: {"logs":"a\\nb\\n"}\n\n: heartbeat\n\nid: 3\ndata: first\ndata: second\n\n';

test.each([1, 2, 3, 7, 1000])("frames are whole, wherever chunks of %i end", (size) => {
  const parser = new FrameParser();
  const frames = [];
  for (let at = 0; at < STREAM.length; at += size) frames.push(...parser.push(STREAM.slice(at, at + size)));
  expect(frames).toEqual([{ id: "2", data: '{"logs":"a\\nb\\n"}' }, { id: "3", data: "first\nsecond" }]);
  expect(parser.retryMs).toBe(250);
});

test("lines may end in CRLF, also where a chunk ends between the two", () => {
  const parser = new FrameParser();
  expect([...parser.push("data: a\r"), ...parser.push("\n\r\ndata: b\r\n\r\n")]).toEqual([{ id: "", data: "a" }, { id: "", data: "b" }]);
});

test("a frame that was cut off is none", () => {
  expect(new FrameParser().push("id: 9\ndata: lost\n")).toEqual([]);
});

test("a space behind the colon is left out, one", () => {
  expect(new FrameParser().push("data:  x\n\ndata:y\n\n").map((frame) => frame.data)).toEqual([" x", "y"]);
});
