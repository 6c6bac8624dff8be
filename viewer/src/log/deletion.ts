/** The dialog that deletes a run, once its id is typed. */

import { api } from "../api";
import { el } from "../dom";
import { plural } from "../format";
import { confirm } from "../ui/confirm";
import { changeFailure, type Message } from "../ui/message";

const EFFECTS: Message[] = [
  ["All lines, events and steps of the run are deleted, with all facts about it. Programs cannot store lines under its name again. This cannot be undone."],
  ["Copies that were forwarded, downloaded or backed up are not reached."],
];
const MAX_REASON = 500;

/** Ask, and delete. `deleted` gets what the removal counted. */
export function confirmDeletion(fqn: string, runId: string, deleted: (message: string) => void): void {
  const means = el("p", { id: "typed-means", class: "wrong", role: "status" });
  const typed = el("input", { id: "typed-id", required: true, autocomplete: "off", spellcheck: "false", dir: "auto", "aria-describedby": "typed-means", oninput: () => (means.textContent = "") });
  const reason = el("input", { id: "deletion-reason", maxlength: MAX_REASON, autocomplete: "off", placeholder: "for the audit, optional" });
  const field = el("div", { class: "moment" }, el("label", { for: "typed-id" }, "Type the run's id to confirm"), typed, means, el("label", { for: "deletion-reason" }, "Reason"), reason);
  confirm({
    title: ["Delete run ", { userText: runId }, " for good?"], effects: EFFECTS, verb: "Delete", field,
    read: () => {
      const isSame = typed.value.trim() === runId;
      means.textContent = isSame ? "" : "This is not the run's id.";
      if (!isSame) typed.focus();
      return isSame ? reason.value.trim() : null;
    },
    send: async (text) => deleted(await deleteWhole(fqn, runId, text)),
    explain: (error) => changeFailure(error, "run", REASONS),
  });
}

export const REASONS: Record<number, Message> = {
  403: ["Deleting a run requires the scope logs:delete for its pipeline."],
  404: ["The run does not exist anymore: it has expired, or nothing of it was stored."],
};

/** Each call continues the one before. Returns a sentence about the result. */
async function deleteWhole(fqn: string, runId: string, reason: string): Promise<string> {
  for (;;) {
    const { state, counts, outstanding } = await api.deleteRun(fqn, runId, reason);
    if (state !== "deleted") continue;
    const rest = outstanding.map(({ what, until }) => ` Outstanding: ${what}, until ${until}.`).join("");
    return `The run is deleted: ${plural(counts["objects"] ?? 0, "object")} removed.${rest}`;
  }
}
