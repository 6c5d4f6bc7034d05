// Finds and starts Chromium. A missing browser is a failure that says what to do, never a skip.

import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

const isExecutable = (path) => {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

const find = () => {
  const named = process.env.CHROMIUM;
  if (named) {
    if (isExecutable(named)) return named;
    throw new Error(`CHROMIUM is ${named}, which is not a program: set it to the path of a Chromium`);
  }
  const folders = (process.env.PATH ?? "").split(delimiter).filter(Boolean);
  const found = folders.flatMap((folder) => NAMES.map((name) => join(folder, name))).find(isExecutable);
  if (found) return found;
  throw new Error(
    "no Chromium on PATH: install it (on Debian: apt-get install chromium), or set CHROMIUM to its path",
  );
};

/** Milliseconds after which something hangs; a busy machine is slow, and nothing waits this long for it. */
export const PATIENCE = 180_000;

export const launch = () =>
  chromium.launch({
    executablePath: find(),
    timeout: PATIENCE,
    args: [
      "--disable-gpu",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      // Chromium's own sandbox refuses to start as root, as in a container.
      ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
    ],
  });
