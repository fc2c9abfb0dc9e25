// Starts Debian's Chromium so that it does nothing by itself.
import { chromium } from "playwright-core";

/** A browser without a window and without a network of its own. */
export function start() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}
