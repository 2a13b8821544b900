/** Short messages at the edge of the window, read aloud by screen readers. */

const SHOWN_MS = 5000;

export function toast(text: string, tone: "good" | "bad" = "good"): void {
  const item = document.createElement("div");
  item.className = `toast ${tone}`;
  item.textContent = text;
  region().append(item);
  // Popovers are drawn above dialogs; showing the region again brings it above a dialog that was opened later.
  region().hidePopover();
  region().showPopover();
  window.setTimeout(() => item.remove(), SHOWN_MS);
}

function region(): HTMLElement {
  const existing = document.querySelector<HTMLElement>(".toasts");
  if (existing) return existing;
  const created = document.createElement("div");
  created.className = "toasts";
  created.setAttribute("role", "status");
  created.popover = "manual";
  document.body.append(created);
  created.showPopover();
  return created;
}
