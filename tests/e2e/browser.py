"""Headless Chromium, and the log-in page in it, as a person uses it."""

import contextlib
import shutil

from playwright.sync_api import sync_playwright


WAIT_MS = 20_000


@contextlib.contextmanager
def people(**options):
    """Gives a page to each who asks for one; they share nothing."""
    chromium = shutil.which("chromium") or "/usr/bin/chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking",
                  "--disable-component-update", "--disable-sync", "--no-first-run"],
        )

        def page():
            context = browser.new_context(**options)
            context.set_default_timeout(WAIT_MS)
            return context.new_page()

        yield page
        browser.close()


@contextlib.contextmanager
def page(**options):
    with people(**options) as another:
        yield another()


def authorize(url, email, password):
    """Logs in, agrees, and gives the code that the page shows."""
    with page(java_script_enabled=False) as tab:
        tab.goto(url)
        tab.fill("input[name=login]", email)
        tab.fill("input[name=password]", password)
        tab.get_by_role("button", name="Log in").click()
        tab.get_by_role("button", name="Allow").click()
        return tab.locator("#code").inner_text().strip()
