"""The page of a server in a real Chromium, driven by selenium."""

import base64
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

PROGRAMS = ("chromium", "chromedriver")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
SWITCHES = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")

FILES = """
const [kind, files, text] = arguments;
const data = new DataTransfer();
if (text) data.setData("text/plain", text);
for (const [name, type, content] of files) {
  const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
  data.items.add(new File([bytes], name, {type}));
}
const fields = {bubbles: true, cancelable: true};
const event = kind === "paste"
  ? new ClipboardEvent("paste", {clipboardData: data, ...fields})
  : new DragEvent(kind, {dataTransfer: data, ...fields});
document.getElementById("question").dispatchEvent(event);
return event.defaultPrevented;
"""
"""Lets an event with files happen, as the user's own do."""


class Browser:
    """One window on one page."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        self.driver.get(url)
        self.until(lambda: self.text("#model") or self.one("#unlock").is_displayed())

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """The text of the last element, as it is in the document."""
        found = self.all(selector)
        return str(found[-1].get_property("textContent")) if found else ""

    def script(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(code, *arguments)

    def until(self, done: Callable[[], Any], seconds: float = 60) -> Any:
        return WebDriverWait(self.driver, seconds, 0.05).until(lambda _: done())

    def type(self, *keys: str) -> None:
        """Type into whatever has the focus."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def give(self, kind: str, *files: tuple[str, str, bytes], text: str = "") -> bool:
        """Drop or paste files: name, type and content; true if the page took them.

        text: what is on the clipboard beside them.
        """
        packed = [[name, mime, base64.b64encode(it).decode()] for name, mime, it in files]
        return bool(self.script(FILES, kind, packed, text))

    def idle(self) -> bool:
        """True if no answer comes."""
        return self.one("#ask").is_displayed()

    def ask(self, text: str) -> None:
        """Type more of a question, ask it, and wait for the end of the answer."""
        self.one("#question").send_keys(text)
        self.one("#ask").click()
        self.until(self.idle)

    def drop(self, *files: tuple[str, str, bytes]) -> None:
        """Drop files and wait until the page shows pictures."""
        self.give("drop", *files)
        self.until(lambda: self.all("#pictures img"))

    def race(self) -> str:
        """The verdict of a race."""
        self.one("#race").click()
        self.until(lambda: self.text(".turn:last-child .verdict"))
        self.until(self.idle)
        return self.text(".turn:last-child .verdict")

    def answers(self) -> list[str]:
        return [str(each.get_property("textContent")) for each in self.all(".turn .answer")]

    def resize(self, width: int, height: int) -> None:
        """Another size of the page, as a phone's."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def complaints(self) -> list[str]:
        """What the browser's console holds, such as breaches of the page's policy."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@contextmanager
def browser() -> Iterator[Browser]:
    options = webdriver.ChromeOptions()
    for switch in SWITCHES:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
