"""A headless Chromium, driven by Selenium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.wait import WebDriverWait

from tests.support.servers import unavailable
from tests.support.waiting import DEADLINE

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DRIVERS = ("chromedriver", "chromium.chromedriver")

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)

PHONE, DESKTOP = (390, 844), (1280, 900)

#: The contrast between the text of an element and the nearest background below it, as WCAG computes it.
CONTRAST = """
const parse = (text) => text.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) => [r, g, b].map((part) => part / 255)
    .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
const below = (element) => {
    for (let one = element; one; one = one.parentElement) {
        const colour = parse(getComputedStyle(one).backgroundColor);
        if (colour.length === 3 || colour[3] > 0) { return colour; }
    }
    return [255, 255, 255];
};
return [...document.querySelectorAll(arguments[0])].map((element) => {
    const [light, dark] = [luminance(parse(getComputedStyle(element).color)), luminance(below(element))]
        .sort((one, other) => other - one);
    return [element.className || element.tagName, (light + 0.05) / (dark + 0.05)];
});
"""


class Browser:
    """One window. Owns the browser's process; what a page logged is in `complaints`."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def show(self, *, size: tuple[int, int] = DESKTOP, theme: str = "light", scripts: bool = True) -> None:
        """Pretend to be a window of a size, a preference for a theme, and with scripts or without."""
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
        media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})

    def follow(self, selector: str) -> None:
        """Click what leads to another page, or sends a form; returns once that page is there."""
        here = self.driver.find_element(By.TAG_NAME, "html")
        self.driver.find_element(By.CSS_SELECTOR, selector).click()
        WebDriverWait(self.driver, DEADLINE).until(staleness_of(here))

    def complaints(self) -> list[str]:
        """What the console has complained about since the last call, but for the missing icon of a test site."""
        entries = self.driver.get_log("browser")
        return [entry["message"] for entry in entries if "favicon" not in entry["message"]]

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(self.driver.execute_script("return document.documentElement.scrollWidth - window.innerWidth"))

    def contrasts(self, selector: str) -> list[tuple[str, float]]:
        """Class and contrast of every element."""
        return [(name, float(ratio)) for name, ratio in self.driver.execute_script(CONTRAST, selector)]


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser with an empty profile; skipped where there is none, unless this is CI."""
    binary, driver = _first(BROWSERS), _first(DRIVERS)
    if binary is None or driver is None:
        unavailable("Chromium and its driver are not installed (apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Browser(chrome)
    finally:
        chrome.quit()


def _first(names: tuple[str, ...]) -> str | None:
    return next((found for name in names if (found := shutil.which(name))), None)
