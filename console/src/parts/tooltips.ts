/** One tooltip for all elements with `data-tip`. It follows the pointer and the keyboard's focus. */

import { onMove } from "../core/router.js";

const DISTANCE = 8;
const MARGIN = 8;

export function installTooltips(): void {
  const bubble = document.createElement("div");
  bubble.className = "tooltip";
  bubble.id = "tooltip";
  bubble.setAttribute("role", "tooltip");
  bubble.popover = "manual";
  document.body.append(bubble);
  let owner: Element | null = null;

  const show = (event: Event) => {
    const target = (event.target as Element).closest?.("[data-tip]");
    if (!target) return hide();
    if (target === owner) return;
    hide();
    owner = target;
    bubble.textContent = target.getAttribute("data-tip");
    target.setAttribute("aria-describedby", bubble.id);
    bubble.showPopover();
    place(bubble, target.getBoundingClientRect());
  };

  const hide = () => {
    if (!owner) return;
    owner.removeAttribute("aria-describedby");
    owner = null;
    bubble.hidePopover();
  };

  document.addEventListener("pointerover", show);
  document.addEventListener("focusin", (event) => {
    if ((event.target as Element).matches(":focus-visible")) show(event);
  });
  document.addEventListener("focusout", hide);
  onMove(hide);
  document.addEventListener("pointerdown", hide);
  document.addEventListener("scroll", hide, { capture: true, passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
}

function place(bubble: HTMLElement, target: DOMRect): void {
  const size = bubble.getBoundingClientRect();
  const fitsBelow = target.bottom + DISTANCE + size.height < innerHeight;
  const top = fitsBelow ? target.bottom + DISTANCE : target.top - DISTANCE - size.height;
  const centred = target.left + target.width / 2 - size.width / 2;
  const left = Math.max(MARGIN, Math.min(centred, innerWidth - size.width - MARGIN));
  bubble.style.top = `${Math.max(MARGIN, top)}px`;
  bubble.style.left = `${left}px`;
}
