# SPDX-License-Identifier: Apache-2.0
"""Random templates for chat_oracle.py: written from nothing, mostly well typed so that they render, or a template of ours with a few
words moved. The same seed gives the same template."""
import random
import re

TEXTS = ["", "a", "user", " b ", "x<y>&'\"", "Häl-lo wörld", "a\nb\n", "\n", "one two  three", "3", "-4.5", "1e3", "ß", "ǆx", "日本", "{", "}}", "a.b.c", "/think",
         "<think>\nab\n</think>\n\ncd", "</think>", "None", "0", "\t x\u00a0", "A", "\\n", "İ", "ΑΣ", "'", '"', "it's \"q\"", "🙂", "\x1c", "\r\n", "a\rb", "{{ x }}", "%s"]
VARIABLES = {
    "n": 7, "z": None, "x": 2.5, "neg": -3, "big": 123456789012, "t": True, "f": False, "s": "Häl-lo wörld's <b>", "e": "", "sp": "  a b \n c  ",
    "l": [3, "b", None, True, 1.0, [1], {"k": "v"}], "w": ["b", "A", "c", "a", "B"], "nums": [3, 1, 2.5, -1, True], "il": [], "id": {}, "deep": [[[1, 2], [3]], []],
    "d": {"b": 1, "a": [2, {"q": "é"}], "items": 3, "é": None, "role": "user"},
    "m": [{"role": "user", "content": "hi", "n": {"v": 2}},
          {"role": "assistant", "content": "<think>x</think>y", "n": {"v": 1}, "tool_calls": [{"function": {"name": "f", "arguments": {"p": "q", "i": 1}}}]},
          {"role": "tool", "content": None}],
    "schema": {"type": "object", "properties": {"a": {"type": ["string", "null"], "enum": ["x", "y"]}, "b": {"type": "integer", "default": 3}}, "required": ["a"]}}
TEXT_NAMES = ["s", "e", "sp", "messages[0]['content']", "m[1].content", "d.role", "m[0].role", "bos_token", "schema.type", "m[1]['tool_calls'][0]['function'].name", "loop.index|string"]
NUMBERS = ["0", "1", "2", "3", "-1", "5", "1.5", "0.1", "100", "1e2", "n", "x", "neg", "t", "l|length", "loop.index0", "m[0].n.v", "ns.c", "nums[0]", "big"]
TRUTHS = ["t", "f", "loop.first", "loop.last", "add_generation_prompt", "e", "s", "l", "il", "z", "u", "true", "tools", "not il"]
STRINGS = ["w", "s.split()", "'a,b,c'.split(',')", "sp.splitlines()", "m|map(attribute='role')|list", "schema.required", "d.keys()|list"]
LISTS = ["l", "w", "nums", "m", "messages", "deep", "il", "m[1].tool_calls", "d.items()|list", "schema.properties.a.type", "range(4)|list", "d.values()|list", "m[::-1]"]
DICTS = ["d", "schema", "m[0]", "m[1]", "messages[0]", "id", "schema.properties", "m[1].tool_calls[0].function.arguments", "{'a': n, 'b': s}", "dict(a=1, b='x')"]
ABSENT = ["u", "d.nope", "z", "m[2].content", "messages[0].tool_calls", "l[9]", "ns.q", "d['é']"]
OF_TEXT = ["strip()", "lstrip()", "rstrip()", "upper()", "lower()", "title()", "capitalize()", "strip(TEXT)", "lstrip(TEXT)", "rstrip(TEXT)", "replace(TEXT, TEXT)", "replace(TEXT, TEXT, 1)",
           "split('</think>')[-1]", "split('\\n')[0]", "split('a', 1)[-1]", "rsplit('a', 1)[0]", "partition(':')[0]", "removeprefix(TEXT)", "removesuffix(TEXT)", "ljust(8)", "rjust(6, '.')",
           "split()|join(' ')", "split('</think>')[-1].lstrip('\\n')", "rstrip('\\n').split('<think>')[-1]"]
TEXT_FILTERS = ["trim", "upper", "lower", "title", "capitalize", "string", "safe", "replace(TEXT, TEXT)", "indent(2)", "indent(4, true)", "indent('  ', blank=true)", "default('x')",
                "default('x', true)", "trim(TEXT)", "reverse", "first", "last", "e", "tojson"]
PRINTED = ["tojson", "tojson(indent=2)", "string", "tojson(ensure_ascii=true)", "tojson|safe", "tojson(separators=(',', ':'))"]
OF_STRINGS = ["sort", "sort(reverse=true)", "unique|list", "reverse|list", "map('upper')|list", "map('trim')|list", "select|list", "reject('equalto', 'a')|list", "sort(case_sensitive=true)",
              "select('in', ['a', 'b', 'user'])|list", "map('replace', 'a', 'z')|list", "map('tojson')|list"]
OF_MESSAGES = ["map(attribute='role')|list", "selectattr('role', 'equalto', 'user')|list", "rejectattr('role', 'in', ['tool', 'user'])|list", "selectattr('tool_calls', 'defined')|list",
               "selectattr('content')|list", "map(attribute='n.v', default=0)|list", "rejectattr('content', 'none')|list", "batch(2)|list", "sort(attribute='role,content')|length",
               "groupby('role')|list", "map('length')|list", "map('items')|map('list')|list"]
TESTS = ["defined", "none", "string", "mapping", "iterable", "sequence", "number", "boolean", "true", "undefined", "integer", "float", "callable", "eq 1", "equalto 'user'", "in [1, 'user', none]"]


class Writer:
    def __init__(self, seed):
        self.draw = random.Random(seed)

    def pick(self, *choices):
        return self.draw.choice(choices)

    def literal(self):
        quote, text = self.pick("'", '"'), self.draw.choice(TEXTS)
        spelled = ""
        for c in text:
            if c in (quote, "\\"):
                spelled += "\\" + c
            elif c in "\n\r\t" or ord(c) < 32:
                spelled += {"\n": self.pick("\\n", "\n"), "\r": "\\r", "\t": self.pick("\\t", "\t")}.get(c) or f"\\x{ord(c):02x}"
            else:
                spelled += c if ord(c) < 127 else self.pick(c, f"\\U{ord(c):08x}")
        return quote + spelled + quote

    def filled(self, pattern):
        return re.sub("TEXT", lambda _: self.literal(), pattern)

    @staticmethod
    def bracketed(expression):
        return expression if re.fullmatch(r"[A-Za-z_][\w.\[\]']*", expression) else f"({expression})"

    def cut(self):
        bound = ("0", "1", "2", "-1", "-2", "n", "l|length", "", "")
        return f"[{self.pick(*bound)}:{self.pick(*bound)}{self.pick('', '', '', ':2', ':-1')}]"

    def text(self, depth):
        if depth <= 0 or self.draw.random() < 0.12:
            return self.pick(self.literal(), self.draw.choice(TEXT_NAMES))
        inner = self.bracketed(self.text(depth - 1))
        return self.pick(lambda: f"{inner}.{self.filled(self.draw.choice(OF_TEXT))}", lambda: f"{inner}|{self.filled(self.draw.choice(TEXT_FILTERS))}",
                         lambda: f"{self.bracketed(self.any(depth - 1))}|{self.draw.choice(PRINTED)}", lambda: f"({inner} {self.pick('+', '+', '~')} {self.text(depth - 1)})",
                         lambda: f"({self.any(depth - 1)} ~ {self.any(depth - 1)})", lambda: inner + self.cut(), lambda: f"{inner} * {self.pick('2', '0', 'n')}",
                         lambda: f"{self.bracketed(self.strings(depth - 1))}|{self.filled(self.pick('join', 'join(TEXT)', 'first', 'last'))}",
                         lambda: f"({inner} if {self.truth(depth - 1)}{self.pick(' else ' + self.text(depth - 1), '')})", lambda: f"({inner} or {self.text(depth - 1)})",
                         lambda: self.pick("loop.cycle('a', 'b')", "f('q')", "f(b='r')", "f()"))()

    def number(self, depth):
        if depth <= 0 or self.draw.random() < 0.3:
            return self.draw.choice(NUMBERS)
        inner = self.bracketed(self.number(depth - 1))
        return self.pick(lambda: f"({inner} {self.pick('+', '-', '*', '//', '%', '/')} {self.number(depth - 1)})", lambda: f"{self.bracketed(self.pick(self.text, self.list, self.dict)(depth - 1))}|length",
                         lambda: f"{inner}|{self.pick('int', 'float', 'abs', 'round', 'round(1)', 'string|int', 'default(0)')}", lambda: f"nums|{self.pick('sum', 'max', 'min', 'first', 'last')}",
                         lambda: f"({inner} if {self.truth(depth - 1)} else {self.number(depth - 1)})", lambda: f"{self.bracketed(self.text(depth - 1))}.{self.filled(self.pick('find(TEXT)', 'count(TEXT)'))}",
                         lambda: "-" + inner)()

    def truth(self, depth):
        if depth <= 0 or self.draw.random() < 0.15:
            return self.draw.choice(TRUTHS)
        text, number, other = self.bracketed(self.text(depth - 1)), self.bracketed(self.number(depth - 1)), self.bracketed(self.any(depth - 1))
        return self.pick(lambda: f"{other} is {self.pick('', '', 'not ')}{self.draw.choice(TESTS)}", lambda: f"{text} {self.pick('==', '!=', 'in', 'not in', '<')} {self.bracketed(self.text(depth - 1))}",
                         lambda: f"{number} {self.pick('==', '<', '>', '<=', '>=')} {self.bracketed(self.number(depth - 1))}", lambda: f"{self.any(0)} in {self.bracketed(self.pick(self.list, self.dict)(depth - 1))}",
                         lambda: f"{text}.{self.filled(self.pick('startswith(TEXT)', 'endswith(TEXT)', 'isdigit()', 'isspace()', 'isupper()', 'islower()', 'isalpha()'))}",
                         lambda: f"({self.truth(depth - 1)} {self.pick('and', 'or')} {self.truth(depth - 1)})", lambda: f"not {self.bracketed(self.truth(depth - 1))}",
                         lambda: f"{number} is {self.pick('odd', 'even', 'divisibleby 2')}", lambda: f"{other} {self.pick('==', '!=')} {self.bracketed(self.any(depth - 1))}")()

    def strings(self, depth):
        if depth <= 0 or self.draw.random() < 0.4:
            return self.draw.choice(STRINGS)
        return self.pick(lambda: "[" + ", ".join(self.text(depth - 1) for _ in range(self.draw.randrange(4))) + "]", lambda: f"{self.bracketed(self.strings(depth - 1))}|{self.draw.choice(OF_STRINGS)}",
                         lambda: self.bracketed(self.strings(depth - 1)) + self.cut(), lambda: f"({self.strings(depth - 1)} + {self.strings(depth - 1)})")()

    def list(self, depth):
        if depth <= 0 or self.draw.random() < 0.35:
            return self.draw.choice(LISTS)
        return self.pick(lambda: "[" + ", ".join(self.any(depth - 1) for _ in range(self.draw.randrange(4))) + "]", lambda: self.strings(depth), lambda: f"m|{self.draw.choice(OF_MESSAGES)}",
                         lambda: self.bracketed(self.list(depth - 1)) + self.cut(), lambda: f"{self.bracketed(self.dict(depth - 1))}{self.pick('|dictsort', '|items|list', '.items()|list', '.keys()|list')}",
                         lambda: f"range({self.pick('3', 'n', '1, 5', '5, 1, -2')})|list", lambda: f"({self.list(depth - 1)} + {self.list(depth - 1)})")()

    def dict(self, depth):
        if depth <= 0 or self.draw.random() < 0.7:
            return self.draw.choice(DICTS)
        return "{" + ", ".join(f"{self.pick(self.literal(), 'n')}: {self.any(depth - 1)}" for _ in range(self.draw.randrange(3))) + "}"

    def any(self, depth):
        if self.draw.random() < 0.04:
            return self.draw.choice(ABSENT)
        return self.pick(self.text, self.text, self.text, self.number, self.truth, self.list, self.dict)(depth)

    def tag(self, content):
        signs = ("", "", "", "-", "-", "+")
        return "{%" + self.pick(*signs) + f" {content} " + self.pick(*signs) + "%}"

    def data(self):
        return self.pick("", "", "\n", " ", "x", "  \n", "\n    ", "<|im_start|>", "a\n\n", "\t", "é", "\r\n", "{", "}", "# ", "'")

    def block(self, depth, in_loop=False):
        return "".join(self.data() + self.statement(depth, in_loop) + self.data() for _ in range(self.pick(1, 1, 2, 2, 3)))

    def statement(self, depth, in_loop):
        if depth <= 0 or self.draw.random() < 0.4:
            return "{{" + self.pick("", "", "-") + f" {self.any(self.pick(1, 2, 2, 3))} " + self.pick("", "", "-") + "}}"
        return self.pick(self.assignment, self.assignment, self.condition, self.condition, self.loop, self.loop, self.loop, self.enclosing)(depth, in_loop)

    def assignment(self, _depth, _in_loop):
        target, value = self.pick(("s", self.text), ("q", self.any), ("n", self.number), ("l", self.list), ("ns.c", self.number), ("ns.t", self.text), ("d", self.dict))
        return self.tag(f"set {target} = {value(2)}")

    def condition(self, depth, in_loop):
        made = self.tag(f"if {self.truth(2)}") + self.block(depth - 1, in_loop)
        if self.draw.random() < 0.3:
            made += self.tag(f"elif {self.truth(1)}") + self.block(depth - 1, in_loop)
        if self.draw.random() < 0.4:
            made += self.tag("else") + self.block(depth - 1, in_loop)
        return made + self.tag("endif")

    def loop(self, depth, in_loop):
        target = self.pick("i", "q", "k", "k, v")
        over = self.pick("d.items()", "d|items", "d|dictsort", "schema.properties.items()") if "," in target else self.pick(self.list(1), self.list(2), "range(3)", "messages", "u", "d", "s")
        made = self.tag(f"for {target} in {over}{self.pick('', '', ' if ' + self.truth(1))}") + self.block(depth - 1, True)
        if self.draw.random() < 0.15:
            made += self.tag(f"if {self.truth(1)}") + self.tag(self.pick("break", "continue")) + self.tag("endif") + self.block(depth - 1, True)
        if self.draw.random() < 0.2:
            made += self.tag("else") + self.block(depth - 1, in_loop)
        return made + self.tag("endfor")

    def enclosing(self, depth, in_loop):
        begin, end = self.pick((f"macro f(a={self.literal()}, b=a)", "endmacro"), ("set q", "endset"), ("set q|trim", "endset"), ("filter upper", "endfilter"), ("filter indent(2)", "endfilter"),
                               (f"with q = {self.any(1)}, a = q", "endwith"), ("generation", "endgeneration"), ("call(a) g(1)", "endcall"))
        is_function = begin.startswith(("macro", "call", "generation"))
        return self.tag(begin) + self.block(depth - 1, in_loop and not is_function) + self.tag(end) + ("{{ f('a') }}" if begin.startswith("macro") else "")


def written(seed):
    """A template from nothing."""
    writer = Writer(seed)
    return ("{% set ns = namespace(c=0, t='') %}{% macro f(a='', b=1) %}{{ a }}{{ b }}{% endmacro %}{% macro g(a) %}[{{ caller(a) }}]{% endmacro %}"
            + writer.block(writer.pick(0, 1, 2, 3, 4)))


WORDS = re.compile(r"\{%[-+]?|[-+]?%\}|\{\{[-+]?|[-+]?\}\}|\{#|#\}|[A-Za-z_]\w*|\d+|'[^']*'|\"[^\"]*\"|\s+|.", re.S)


def moved(seed, sources):
    """One of the templates with one to three words taken out, put in or exchanged."""
    draw = random.Random(seed)
    words, others = WORDS.findall(draw.choice(sources)), WORDS.findall(draw.choice(sources))
    for _ in range(draw.choice((1, 1, 2, 3))):
        place, other = draw.randrange(len(words)), draw.randrange(len(words))
        change = draw.randrange(4)
        if change == 0:
            words[place] = ""
        elif change == 1:
            words[place] += draw.choice(others)
        elif change == 2:
            words[place] = draw.choice(others)
        else:
            words[place], words[other] = words[other], words[place]
    return "".join(words)
