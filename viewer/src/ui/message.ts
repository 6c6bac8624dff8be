/** Messages that quote text of users. */

import { name } from "../dom";

/** User-supplied text within a message. */
export interface UserText { userText: string }
export type Message = (string | UserText)[];

export const render = (message: Message): (Node | string)[] => message.map((part) => (typeof part === "string" ? part : name(part.userText)));
