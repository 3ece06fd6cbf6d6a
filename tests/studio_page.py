"""The studio as its users have it: the program, and its page in a real browser."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chromium import find_chromium

FLAGS = [
    "--no-sandbox",  # containers have no user namespaces; pages here are our own
    "--disable-accelerated-2d-canvas",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
]
PATIENCE = 120_000.0
"""Milliseconds that a busy machine may take for anything."""

NOT_GREY = """(canvas) => {
  const copy = document.createElement("canvas");
  copy.width = canvas.width; copy.height = canvas.height;
  const paper = copy.getContext("2d", { willReadFrequently: true });
  paper.drawImage(canvas, 0, 0);
  const { data } = paper.getImageData(0, 0, copy.width, copy.height);
  let count = 0, sum = 0;
  for (let k = 0; k < data.length; k += 4) {
    const most = Math.max(data[k], data[k + 1], data[k + 2]), least = Math.min(data[k], data[k + 1], data[k + 2]);
    if (data[k + 3] && most - least > 40) { count += 1; sum = (sum * 31 + k + most) % 1000000007; }
  }
  return [count, sum];
}"""  # noqa: E501
"""How many pixels of a canvas have a colour, and a hash of where they are."""


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `minidyn studio`; give the address that it prints, and its process."""
    command = [sys.executable, "-m", "minidyn", "studio", *arguments]
    server = subprocess.Popen(
        [*command, "--folder", str(folder), "--no-browser"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        yield found[0], server
    finally:
        server.terminate()
        server.communicate()


@contextmanager
def browser() -> Iterator[Any]:
    """Give a browser; the test is skipped where there is none."""
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium here (MINIDYN_CHROMIUM names one)")
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with driver.sync_playwright() as play:
        made = play.chromium.launch(executable_path=path, args=FLAGS)
        yield made
        made.close()


def opened(context: Any, address: str, complaints: list[str]) -> Any:
    """Return a page of the studio that shows its study; what it complains about is collected."""
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda said: complaints.append(said.text) if said.type == "error" else None,
    )
    page.goto(address)
    page.wait_for_selector("html[data-ready=yes]")
    return page


def go(page: Any, stage: str) -> None:
    """Go to a stage."""
    page.click(f"[data-stage={stage}]")
    page.wait_for_selector(f"[data-stage={stage}][aria-current]")


def until(page: Any, expression: str) -> None:
    """Wait until an expression of the page holds; its policy forbids the browser's own way."""
    for _ in range(int(PATIENCE / 100)):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"never: {expression}")
