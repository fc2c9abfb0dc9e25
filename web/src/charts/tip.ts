// The one small box that follows the pointer and tells what it is on; text only.

let box: HTMLElement | null = null;

function element(): HTMLElement {
  if (!box) {
    box = document.createElement("div");
    box.className = "tip";
    box.setAttribute("aria-hidden", "true");
    document.body.append(box);
  }
  return box;
}

/** Shows lines of text beside the pointer; the first is the heading. */
export function showTip(event: { clientX: number; clientY: number }, lines: string[]): void {
  const tip = element();
  tip.replaceChildren(
    ...lines.map((text) => {
      const line = document.createElement("div");
      line.textContent = text;
      return line;
    }),
  );
  tip.style.display = "block";
  const { offsetWidth: width, offsetHeight: height } = tip;
  const right = event.clientX + 14 + width > document.documentElement.clientWidth;
  const low = event.clientY + 14 + height > window.innerHeight;
  tip.style.left = `${Math.max(4, right ? event.clientX - width - 10 : event.clientX + 14)}px`;
  tip.style.top = `${Math.max(4, low ? event.clientY - height - 10 : event.clientY + 14)}px`;
}

/** Hides it. */
export function hideTip(): void {
  if (box) box.style.display = "none";
}
