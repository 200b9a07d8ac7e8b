#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of `megalith serve` in headless Chromium: python3 serve_page_test.py PROGRAM [--pictures FOLDER]"""
import json
import pathlib
import sys
import unittest

from browser import CHROMIUM, Browser
from serve_test import ServeTest

PICTURES = pathlib.Path(sys.argv.pop(sys.argv.index("--pictures") + 1)) if "--pictures" in sys.argv else None
if PICTURES:
    sys.argv.remove("--pictures")


@unittest.skipUnless(CHROMIUM, "there is no chromium: apt-get install chromium")
class Page(ServeTest):
    def setUp(self):
        self.browser = self.enterContext(Browser())
        self.address = f"http://{self.server.ready['http']}/"

    def picture(self, name):
        if PICTURES:
            self.browser.screenshot(PICTURES / f"{name}.png")

    def open(self, **options):
        self.browser.open(self.address, **options)
        self.browser.wait_for("document.getElementById('model').textContent !== ''")

    def set(self, name, value):
        self.browser.run(f"document.getElementById({json.dumps(name)}).value = {json.dumps(value)}")

    def say(self, text):
        self.browser.run("document.getElementById('prompt').focus()")
        self.browser.call("Input.insertText", text=text)
        self.browser.press("Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")

    def answers(self):
        """Texts of what the model said, once it is silent."""
        self.browser.wait_for("document.getElementById('stop-button').disabled && document.querySelectorAll('.turn.assistant .figures').length > 0")
        return self.browser.run("[...document.querySelectorAll('.turn.assistant')].map(turn => turn.children[1].textContent)")

    def test_a_chat(self):
        self.open()
        self.set("temperature", "0")
        self.set("max_tokens", "12")
        self.say("the cat")
        answers = self.answers()
        messages = [{"role": "user", "content": "the cat"}]
        asked = {"model": self.server.model, "messages": messages, "max_tokens": 12, "temperature": 0, "top_p": 0.95}
        expected = self.server.json("/v1/chat/completions", asked)["choices"][0]["message"]["content"]
        self.assertNotEqual(expected, "")
        self.assertEqual(answers, [expected])
        figures = self.browser.run("document.querySelector('.figures').textContent")
        self.assertRegex(figures, r"^\d+ tokens, [\d.]+ tokens/s, first after [\d.]+ s, (length|stop)$")
        self.say("and the dog")
        messages += [{"role": "assistant", "content": expected}, {"role": "user", "content": "and the dog"}]
        self.browser.wait_for("document.querySelectorAll('.turn.assistant').length === 2")
        self.assertEqual(self.answers()[1], self.server.json("/v1/chat/completions", {**asked, "messages": messages})["choices"][0]["message"]["content"])

    def test_a_new_conversation_begins_empty(self):
        self.open()
        self.set("temperature", "0")
        self.set("max_tokens", "200")
        self.say("the cat")
        self.browser.wait_for("document.querySelectorAll('.token').length > 1")
        self.browser.run("document.getElementById('clear').click()")
        self.browser.wait_for("document.getElementById('stop-button').disabled")
        self.set("max_tokens", "12")
        self.say("the dog")
        asked = {"model": self.server.model, "messages": [{"role": "user", "content": "the dog"}], "max_tokens": 12, "temperature": 0, "top_p": 0.95}
        self.assertEqual(self.answers(), [self.server.json("/v1/chat/completions", asked)["choices"][0]["message"]["content"]])

    def test_probabilities_under_the_pointer(self):
        self.open()
        self.set("max_tokens", "24")
        self.set("seed", "1")
        self.say("the cat sees the dog")
        self.answers()
        self.browser.run("document.getElementById('sure').click()")
        place = self.browser.run("(() => { const box = document.querySelector('.token[data-tip]').getBoundingClientRect(); return [box.left + 2, box.top + 4]; })()")
        self.browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
        self.browser.wait_for("!document.getElementById('tip').hidden")
        tip = self.browser.run("document.getElementById('tip').textContent")
        self.assertRegex(tip, r"(?m)^> +[\d.]+ %  ")
        self.assertGreaterEqual(len(tip.splitlines()), 5)
        self.picture("probabilities")

    def test_stop_and_a_text_continued(self):
        self.open()
        self.browser.run("(() => { const mode = document.getElementById('mode'); mode.value = 'text'; mode.dispatchEvent(new Event('change')); })()")
        self.assertTrue(self.browser.run("document.getElementById('system-label').hidden"))
        self.set("max_tokens", "200")
        self.say("the cat")
        self.browser.press("Escape", code="Escape", windowsVirtualKeyCode=27)
        self.answers()
        self.server.wait_for(lambda values: values["megalith:requests_running"] + values["megalith:requests_waiting"] == 0)

    def test_errors_are_shown(self):
        self.open()
        self.set("max_tokens", "100000")
        self.say("the cat")
        self.browser.wait_for("document.querySelector('.figures.error') !== null")
        self.assertIn("maximum context length", self.browser.run("document.querySelector('.figures.error').textContent"))

    def test_it_fits_a_phone_and_the_dark(self):
        self.open(width=390, height=780, dark=True)
        self.set("max_tokens", "24")
        self.say("the cat")
        self.answers()
        self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), 390)
        self.picture("phone")
        self.browser.run("document.getElementById('open').click()")
        self.assertNotEqual(self.browser.run("getComputedStyle(document.getElementById('settings')).display"), "none")
        self.assertEqual(self.browser.run("getComputedStyle(document.body).backgroundColor"), "rgb(22, 24, 26)")
        self.picture("phone-settings")

    def test_the_engine_is_shown(self):
        self.open()
        self.browser.wait_for("/^0 of \\d+$/.test(document.getElementById('blocks').textContent)")
        self.picture("empty")


del ServeTest  # its tests are run by its own file

if __name__ == "__main__":
    unittest.main()
