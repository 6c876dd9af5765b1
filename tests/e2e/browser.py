"""The log-in page in headless Chromium, as a person uses it."""

import contextlib
import shutil

from playwright.sync_api import sync_playwright


@contextlib.contextmanager
def page(**options):
    chromium = shutil.which("chromium") or "/usr/bin/chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking",
                  "--disable-component-update", "--disable-sync", "--no-first-run"],
        )
        context = browser.new_context(**options)
        context.set_default_timeout(20_000)
        yield context.new_page()
        browser.close()


def authorize(url, email, password):
    """Logs in, agrees, and gives the code that the page shows."""
    with page(java_script_enabled=False) as tab:
        tab.goto(url)
        tab.fill("input[name=login]", email)
        tab.fill("input[name=password]", password)
        tab.get_by_role("button", name="Log in").click()
        tab.get_by_role("button", name="Allow").click()
        return tab.locator("#code").inner_text().strip()
