# SPDX-License-Identifier: Apache-2.0
"""Conversations and pieces of templates for chat_oracle.py."""

WEATHER = {"type": "function", "function": {
    "name": "weather", "description": "The weather of a place", "parameters": {
        "type": "object", "required": ["place"], "properties": {
            "place": {"type": "string", "description": "Town, \"country\""},
            "days": {"type": "integer", "description": "How many <days> & nights", "default": 3},
            "unit": {"type": "string", "enum": ["°C", "°F"], "default": "°C"}}}}}
SHAPES = {"type": "function", "function": {
    "name": "draw", "description": "Draws\nshapes", "parameters": {
        "type": "object", "properties": {
            "points": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
            "style": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "size": {"type": ["integer", "string"], "nullable": True},
            "kind": {"oneOf": [{"type": "string", "description": "a name"}, {"type": "integer"}]},
            "frame": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x"]}}}}}
NOTHING = {"type": "function", "function": {"name": "ping", "description": "No arguments", "parameters": {"type": "object", "properties": {}}}}


def said(*pairs, **more):
    names = {"s": "system", "u": "user", "a": "assistant", "t": "tool", "d": "developer"}
    return {"messages": [{"role": names.get(role, role), "content": content} for role, content in pairs], **more}


def called(name, arguments, number="a1b2c3d4e"):
    return {"role": "assistant", "tool_calls": [{"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}]}


def result(content, number="a1b2c3d4e"):
    return {"role": "tool", "content": content, "tool_call_id": number, "name": "weather"}


ASK = {"role": "user", "content": "How is it in Zürich?"}
END = {"role": "assistant", "content": "Rainy."}
PARTS = [{"type": "text", "text": " Look: "}, {"type": "image", "image": "a.png"}, {"type": "text", "text": "what?"}]

CONVERSATIONS = {
    "one": said(("u", "Hi")),
    "system": said(("s", "Be brief."), ("u", "Hi")),
    "two turns": said(("u", "Hi"), ("a", "Hello!"), ("u", "How are you?")),
    "ended": said(("u", "Hi"), ("a", "Hello!")),
    "system and ended": said(("s", " Be brief.\n"), ("u", "Hi"), ("a", "Hello!"), ("u", "Bye"), ("a", "Bye.")),
    "blanks": said(("s", "\n s \t"), ("u", "  a\n\nb  "), ("a", "\u3000c\u00a0"), ("u", "\x1c\x85d")),
    "empty content": said(("s", ""), ("u", ""), ("a", ""), ("u", "x")),
    "signs of templates": said(("u", "{{ 1 }} {% if %} {# #} </s> <|im_end|> [INST]"), ("a", "'\"\\ \\n <&>")),
    "unicode": said(("u", "日本語 🙂 e\u0301 \u200b \ufeff"), ("a", "Ünïcödé ǆ ß İ Σ")),
    "lines": said(("u", "a\r\nb\rc\x0bd\x0ce\u2028f\n"), ("a", "\n\nx\n\n")),
    "wrong order": said(("u", "a"), ("u", "b")),
    "assistant first": said(("a", "Hello"), ("u", "Hi")),
    "system later": said(("u", "a"), ("s", "b"), ("u", "c")),
    "unknown role": said(("u", "a"), ("critic", "b")),
    "developer": said(("d", "Speak /no_think"), ("u", "a"), ("a", "b")),
    "no content": {"messages": [{"role": "user"}, {"role": "assistant", "content": None}]},
    "parts": said(("u", PARTS), ("a", "A cat."), ("u", [{"type": "text", "text": "Sure?"}])),
    "system in parts": said(("s", [{"type": "text", "text": "Be brief."}]), ("u", "Hi")),
    "thinking in text": said(("u", "2+2?"), ("a", "<think>\nfour\n</think>\n\n4"), ("u", "3+3?"), ("a", "<think>six</think>6")),
    "thinking apart": {"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "reasoning_content": "\nfour\n", "content": "4"},
                                    {"role": "user", "content": "3+3?"}, {"role": "assistant", "thinking": "six", "content": "6"}]},
    "no thinking": said(("u", "2+2?"), chat_template_kwargs={"enable_thinking": False, "thinking": True, "reasoning_effort": "high"}),
    "tools": said(("u", "Zürich?"), tools=[WEATHER]),
    "tools and system": said(("s", "Call. /think"), ("u", "Zürich?"), tools=[WEATHER, SHAPES, NOTHING]),
    "no tools": said(("u", "Zürich?"), tools=[]),
    "call": {"messages": [ASK, called("weather", {"place": "Zürich", "days": 2})], "tools": [WEATHER]},
    "call and result": {"messages": [ASK, called("weather", {"place": "Zü\"rich", "w": 1.5, "n": None, "b": True}), result("Rain, 5°C"), END], "tools": [WEATHER]},
    "results of two calls": {"messages": [ASK, {"role": "assistant", "content": "Wait.", "tool_calls": [*called("weather", {"place": "A"})["tool_calls"], *called("draw", {"points": [[1, 2.0]]}, "x")["tool_calls"]]},
                                          result("one"), result({"content": [1, {"two": "é"}]}, "x"), {"role": "user", "content": "And?"}, END], "tools": [SHAPES, WEATHER]},
    "arguments as text": {"messages": [ASK, called("weather", "{\"place\": \"Zürich\"}"), result({"rain": True, "degrees": -0.5})]},
    "documents": said(("u", "Who?"), documents=[{"title": "T1", "text": "one"}, {"title": "T2", "text": "two\nlines"}], chat_template_kwargs={"controls": {"citations": True, "length": "short"}}),
    "documents and tools": said(("s", "Read."), ("u", "Who?"), ("a", "Me."), ("u", "Sure?"), documents=[{"title": "T", "text": "t"}], tools=[SHAPES], chat_template_kwargs={"tools_in_user_message": False, "add_vision_id": True}),
    "many": said(*((("u", "a"), ("a", "b")) * 20)),
}

VARIABLES = {"n": 7, "x": 2.5, "s": "Häl-lo wörld's", "l": [3, "b", None, True, 1.0, [1], {"k": "v"}], "d": {"b": 1, "a": [2], "items": 3, "é": None},
             "w": ["b", "A", "c", "a", "B"], "m": [{"r": "u", "n": {"v": 2}}, {"r": "a", "n": {"v": 1}}, {"r": "u"}], "e": "", "t": True, "z": None, "deep": [[[1, 2], [3]], []]}

EXPRESSIONS = """
n + x | n - 1 | n * 2 | n / 2 | n // 2 | n % 4 | -n // 2 | -n % 4 | n ** 2 | x ** 2 | 2 ** -2 | n + t | x // 0.5 | -x % 2 | 1e3 | 1.5e-7 | 10 / 5 | 7 // 2.0 | 1_0 + 1
1 / 0 | 1 % 0 | 0.0 // 0 | s + 1 | s - s | l + 1 | u + 1 | -u | u * 2 | z + 1 | -s | d + d | t + t | 5 + none
s ~ n ~ x ~ z ~ t ~ u ~ l ~ d | s * 2 | 2 * w | w + w | (1, 2) + (3,) | (1,) + [2] | s % 2 | e ~ e
n == 7 | n == 7.0 | n != 7 | t == 1 | z == none | u == u2 | u == none | l == l | d == d | s == 'x' | [1] == (1,) | {'a': 1} == {'a': 1.0} | 1 < 2 < 3 | 3 > 2 > 2 | 1 < 2 == 2 | n <= 7 >= 6 | 'a' < 'b' | 'Z' < 'a' | 'é' > 'z' | [1, 2] < [1, 3] | (1,) < (1, 2) | 1 < 'a' | none < 1 | u < 1 | {} < {} | 1 == '1'
'l' in s | 'x' not in s | 3 in l | none in l | 'k' in d | 'b' in d | 1 in 5 | 1 in s | u in l | n in u | [1] in l | (1 in (1, 2)) | 'a' in 'cat' in ['cat'] | not n in l | [] in d
n and s | e or s | z or u or 0 | not e | not l | t and not z | n or 1 / 0 | z and 1 / 0 | (n and e) or 'k' | not u | not not n
'y' if n else 'n' | 'y' if z else 'n' | 'y' if z | ('y' if z) is defined | 1 if z else 2 if n else 3 | n if n is odd else 0
s[0] | s[-1] | s[99] | s[1:3] | s[:-2] | s[::-1] | s[::2] | s[-3:] | s[5:2] | s[2:0:-1] | l[0] | l[-1] | l[9] | l[1:] | l[::-1] | l[:2] | l[::3] | l['a'] | l[none] | l[1.0] | l[t] | (1, 2, 3)[1:] | (1, 2)[0] | d['b'] | d['nope'] | d.nope | d['items'] | d.a[0] | d[n] | n[0] | n.x | z.x | z[0] | u.x | u[0] | l.0 | l.5.0 | deep[0][0][1] | deep.0.1.0 | l[n:] | l[:z] | l['a':] | l[::0] | x[0:1] | s.nope | range(5)[1:3]|list | range(5)[2] | range(9)|list | range(2, 9, 3)|list | range(3, 0, -1)|list | range(2) | range(1, 5, 2) | range(0)|length | {1: 'a', 2.0: 'b'}[1.0] | {t: 'a'}[1] | {(1, 2): 'a'}[(1, 2)] | {[1]: 2}
d.items() | d.keys() | d.values() | d.items()|list | d.keys()|list | d.get('b') | d.get('q') | d.get('q', 5) | d.get(key='b') | d.items()|length | 'b' in d.keys() | 1 in d.values() | d.keys()[0] | d.copy() | d.pop('b') | d.update({}) | l.append(1) | l.index(none) | l.index('nope') | l.count(1) | (1, 1).count(1) | d.items()|first | d.keys()|last | d.values()|join
' a b '.strip() + '.' | ' a '.lstrip() + '.' | ' a '.rstrip() + '.' | 'xyaxy'.strip('yx') | 'xxa'.lstrip('x') | 'axx'.rstrip('x') | s.upper() | s.lower() | s.title() | s.capitalize() | 'ß ŉ ǆ'.upper() | 'ΑΣ'.lower() | 'ǆ'.capitalize() | 'ß'.title() | 'ÀÉ'.lower() | s.split() | s.split('l') | s.split('l', 1) | s.split(maxsplit=1) | s.split('-')[-1] | 'a  b'.split(' ') | ''.split() | ''.split('x') | s.split('') | s.rsplit('l', 1) | s.rsplit('l') | s.partition('-') | s.partition('?') | s.splitlines() | 'a\\r\\nb\\n'.splitlines() | 'a\\nb'.splitlines(true) | s.startswith('Hä') | s.endswith('s') | s.startswith(('x', 'H')) | s.startswith(1) | s.replace('l', 'L') | s.replace('l', 'L', 1) | s.replace('', '.') | s.replace('l', '') | s.find('l') | s.find('?') | s.rfind('l') | s.index('w') | s.index('?') | s.count('l') | s.count('') | ','.join(w) | ','.join([1]) | ''.join([]) | '-'.join('abc') | s.removeprefix('Hä') | s.removesuffix('?') | 'ab'.isupper() | 'AB'.isupper() | 'a1'.islower() | '12'.isdigit() | 'a1'.isalpha() | 'é'.isalpha() | ' \\n'.isspace() | 'a'.ljust(3) + '.' | 'a'.rjust(3, '*') | s.strip(1) | s.upper(1) | 'a'.append
s|upper | s|lower | s|title | s|capitalize | 'they''re x-y (ab) [cd]'|title | ' a '|trim + '.' | 'xax'|trim('x') | n|trim | z|trim | s|replace('l', 'L') | s|replace('l', 'L', 1) | n|replace('7', 8) | s|length | l|length | d|length | u|length | n|length | z|length | s|count | (s|list)[:3] | d|list | u|list | n|list | range(3)|list | l|first | e|first | s|last | l|last | []|last | u|first | s|reverse | w|reverse|list | n|reverse
w|join | w|join(', ') | l|join('-') | m|join(',', attribute='r') | u|join | n|join | 'abc'|join('-') | w|sort | w|sort(reverse=true) | w|sort(case_sensitive=true) | m[:2]|sort(attribute='n.v')|map(attribute='r')|list | l|sort | w|unique|list | w|unique(true)|list | [1, 1.0, true, '1']|unique|list | w|min | w|max | [3, 1.5]|min | []|max | w|batch(2)|list | w|batch(2, '-')|list | [1, 2.5]|sum | m[:2]|sum(attribute='n.v') | w|sum | [[1], [2]]|sum(start=[])
m|map(attribute='r')|list | m|map(attribute='n.v')|list | m|map(attribute='q', default=0)|list | w|map('upper')|list | w|map('replace', 'a', 'x')|join | m|selectattr('r', 'equalto', 'u')|list|length | m|selectattr('n')|list|length | m|selectattr('n', 'defined')|list|length | m|rejectattr('n', 'defined')|list | m|rejectattr('r', 'in', ['a'])|list|length | [0, 1, 2, 3]|select('odd')|list | [0, 1, '', 'a']|select|list | [0, 1, 2]|reject('gt', 1)|list | [1, none]|reject('none')|list | w|map('nope')|list | w|select('nope')|list | w|map|list | m|selectattr|list | 'y' if []|select else 'n' | u|map('upper')|list | n|map('upper')|list | w|map('length')|sum
l|tojson | d|tojson | s|tojson | x|tojson | z|tojson | t|tojson | u|tojson | d|tojson(indent=2) | l|tojson(indent=0) | []|tojson(indent=2) | {'b': {}, 'a': 1}|tojson(sort_keys=true) | 'é🙂'|tojson(ensure_ascii=true) | d|tojson(separators=(',', ':')) | d|tojson(separators=(', ', ' = '), indent=1) | '<a href="x">&\\'</a>'|tojson | {1: 2, none: 3, true: 4, 1.5: 5}|tojson | (1, 2)|tojson | range(2)|tojson | d.items()|tojson | d.items()|list|tojson | w|map('upper')|tojson | '\\x00\\x1f\\x7f\\u2028'|tojson | 1e100|tojson | d|tojson(indent='\\t')
'42'|int | ' 4_2 '|int | '4.7'|int | 'x'|int | 'x'|int(5) | '1e3'|int | z|int | t|int | -2.7|int | '0b11'|int(base=2) | 'ff'|int(base=16) | u|int | l|int | ''|int | '+5'|int | '--5'|int | '2.5'|float | 'x'|float | 'x'|float(1.5) | '1e-3'|float | 'inf'|float | '-Infinity'|float | 'nan'|float | n|float | u|float | z|float | '1_0.5'|float | -3|abs | x|abs | s|abs | 2.5|round | 3.5|round | -2.5|round | 2.675|round(2) | 7|round | 7.55|round(1) | 2.1|round(0, 'ceil') | 2.19|round(1, 'floor') | n|round(1, 'ceil') | s|round | 1e300|round | t|round
s|indent | 'a\\nb\\n\\nc'|indent | 'a\\nb'|indent(2, true) | 'a\\n\\nb'|indent(2, false, true) | 'a\\nb'|indent('> ') | 'a\\nb\\n'|indent(1) | n|indent | ''|indent(2, first=true) | u|default('d') | e|default('d') | e|default('d', true) | z|default('d') | z|d('d', boolean=true) | u.x|default('d') | d.q|default('d') | u|default | d|dictsort | d|dictsort(by='value') | {'b': 1, 'A': 2}|dictsort | {'b': 1, 'A': 2}|dictsort(true) | {'b': 1, 'A': 2}|dictsort(reverse=true) | {'b': 2, 'a': 1}|dictsort(false, 'value') | w|dictsort | d|items|list | u|items|list | w|items|list | n|string + '.' | z|string + '.' | l|string | s|string == s | 'a b, c1'|wordcount | s|safe | s|safe ~ '<' | d|attr('b') | d|attr('keys') is defined | s|nope | s|upper|lower|title | -n|abs | s|upper ~ 'b'|upper | n|string|length + 1
n is defined | u is defined | u is undefined | d.q is undefined | z is none | n is none | n is number | x is number | t is number | s is number | n is integer | t is integer | x is integer | x is float | n is float | t is boolean | n is boolean | t is true | n is true | e is false | false is false | s is string | n is string | d is mapping | l is mapping | l is sequence | d is sequence | s is sequence | n is sequence | u is sequence | z is sequence | l is iterable | d is iterable | s is iterable | n is iterable | u is iterable | z is iterable | range(2) is sequence | d.items() is iterable | d.items() is sequence | w|map('upper') is iterable | n is odd | n is even | n is divisibleby 7 | n is divisibleby(2) | x is odd | s is odd | n is eq 7 | n is equalto(7.0) | n is ne 7 | n is gt 6 | n is ge 7 | n is lt 7 | n is le 7 | n is greaterthan 6 | n is lessthan 6 | n is in [7] | n is not in [7] | 'l' is in s | s is lower | 'ab' is lower | 'AB' is upper | '1' is upper | z is sameas none | n is sameas 7 | n is not none | not n is none | n is not defined | range is callable | s.upper is callable | n is callable | 'upper' is filter | 'x' is filter | 'odd' is test | 'x' is test | n is nope | n is eq | n is defined and s is string | n is string or s is string | u is defined and u.x | n is none or n is number
s|safe + '<' | '<' + l|tojson|safe | ('<'|safe) * 2 | ['<'|safe, '<'|e] | s|e | ("'"|safe).replace('\'', '<') | ('-'|safe).join(['<', 1]) | ('a b'|safe).split() | ('a\nb'|safe)|indent + '<' | (s|safe)[1:] + '<' | s|safe|title + '<' | s|safe|upper + '<' | '<'|safe|forceescape | n|e | u|escape | m|groupby('r')|list | w|groupby('x') | m|groupby('n.v', default=0)|map(attribute='grouper')|list | m|sort(attribute='r,n')|length | m|map(attribute='n.v', default='-')|list | n|select|list | z|map('nope')|list | false|selectattr('a')|list
dict(a=1) | dict([('a', 1)]) | dict({'a': 1}, b=2) | dict(1) | namespace(a=1).a | namespace().b | namespace({'a': 2}).a | namespace(_a=1) | [] | {} | () | (1,) | [1, [2, {'a': (3, 'b')}]] | {'a': {'b': none}} | [1.0, 1e20, 1e-9, 123456789012.5] | ['it''s', 'a"b', 'a\\'"b', 'tab\\t', 'é', '\\u200b', '\\x7f', '\\xa0'] | 'a' 'b' | 'a\\tb\\x41\\u00e9\\101' | "it's" | true | none | True, None | 1, | nope() | n() | d.b() | s.upper()() | range() | range('a') | [n, s][0] | {'a': n}.a | [[1, 2], [3]]|map('first')|list
"""

STATEMENTS = [
    "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
    "{% for i in w %}{{ loop.previtem }}|{{ loop.nextitem }}|{{ loop.previtem is defined }} {% endfor %}",
    "{% for i in w if i|lower != 'b' %}{{ loop.index }}{{ i }}{{ loop.last }}{{ loop.length }}{% else %}none{% endfor %}",
    "{% for i in [] %}{{ i }}{% else %}none{{ loop is defined }}{% endfor %}", "{% for i in w %}{% continue %}{% else %}else{% endfor %}",
    "{% for i in w %}{% if loop.index == 2 %}{% break %}{% endif %}{{ i }}{% else %}else{% endfor %}", "{% for i in w %}{% break %}{% else %}else{% endfor %}",
    "{% for i in u %}x{% endfor %}", "{% for i in n %}x{% endfor %}", "{% for i in z %}x{% endfor %}", "{% for c in 'añb' %}{{ c }}.{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }} {% endfor %}", "{% for k, v in d|dictsort %}{{ k }}={{ v }} {% endfor %}", "{% for a, b in w %}{% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for i in 1, 2, 3 %}{{ i }}{% endfor %}", "{% for i in range(3) %}{% for j in range(i) %}{{ i }}{{ j }}{{ loop.index }} {% endfor %}{{ loop.index }};{% endfor %}",
    "{% for i in w %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i|lower) }} {% endfor %}", "{% for i in w %}{{ loop.nope }}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}",
    "{% set ns = namespace(q=1) %}{% for i in w if ns.q < 3 %}{% set ns.q = ns.q + 1 %}{{ i }}{% endfor %}", "{% for i in w|map('upper') %}{{ i }}{{ loop.last }}{% endfor %}",
    "{% for i in w|select('in', 'ab') %}{{ loop.length }}{{ i }}{% endfor %}", 
    "{% set q = 1 %}{% for i in w %}{% set q = q + 1 %}{{ q }}{% endfor %}{{ q }}", "{% if n %}{% set q = 1 %}{% endif %}{{ q }}", "{% if z %}{% set q = 1 %}{% endif %}{{ q }}{{ q is defined }}",
    "{% set n = 1 %}{{ n }}", "{% if z %}{% set n = 1 %}{% endif %}{{ n }}", "{% for i in w %}{% set n = i %}{% endfor %}{{ n }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = 1 %}", "{% set (a, b) = (1, 2) %}{{ b }}", "{% set a = 1, 2 %}{{ a }}",
    "{% set ns = namespace(a=1) %}{% set ns.b = 2 %}{% set ns.a = ns.a + ns.b %}{{ ns.a }}{{ ns.c }}", "{% set d.b = 5 %}", "{% set q.b = 5 %}", "{% set ns = namespace() %}{% set ns._a = 1 %}", "{% set ns = namespace() %}{% set ns.a, x = 1, 2 %}{{ ns.a }}{{ x }}",
    "{% set q %} a {{ n }} {% set r = 2 %}{% endset %}[{{ q }}]{{ r }}", "{% set q | upper | trim %} ab {% endset %}[{{ q }}]", "{% set q %}{% endset %}[{{ q }}]{{ q is string }}", "{% for i in w %}{% set q %}{{ i }}{% if loop.index == 2 %}{% break %}{% endif %}{% endset %}{{ q }}{% endfor %}",
    "{% macro f(a, b=2, c=a) %}{{ a }},{{ b }},{{ c }};{% endmacro %}{{ f(1) }}{{ f(1, 5) }}{{ f(1, c=5) }}{{ f(b=3, a=4) }}{{ f() }}", "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{% endmacro %}{{ f(q=2) }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, a=2) }}",
    "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, q=3) }}", "{% macro f() %}{{ n }}{{ q }}{% endmacro %}{% set q = 5 %}{{ f() }}{% set q = 6 %}{{ f() }}", "{% macro f(k) %}{{ k }}{{ f(k - 1) if k }}{% endmacro %}{{ f(5) }}",
    "{% macro f() %}{% set q = 1 %}{{ q }}{% endmacro %}{{ f() }}{{ q }}", "{% for i in w %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}", "{% for i in w %}{{ f(i) }}{% endfor %}{% macro f(a) %}{% endmacro %}", "{% macro f(x) %}<{{ caller(x, 2) }}>{% endmacro %}{% call(a, b) f(1) %}{{ a }}{{ b }}{{ n }}{% endcall %}",
    "{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}{% set q = 1 %}{{ q }}{% endcall %}{{ q }}", "{% macro f() %}<{{ caller() }}>{% endmacro %}{{ f() }}", "{% macro f() %} x {% endmacro %}[{{ f() }}][{{ f()|trim }}]{{ f() is string }}",
    "{% macro f(a) %}{{ a is defined }}{% endmacro %}{{ f() }}{{ f(none) }}{{ f(q) }}", "{% macro f(a='x') %}{{ a }}{% endmacro %}{{ f(q) }}|{{ f(none) }}", "{% call f() %}{% endcall %}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% set q = 3 %}{% endwith %}{{ a }}{{ q }}", "{% with %}x{% endwith %}", "{% with a = 1, b = a %}{{ b }}{% endwith %}", "{% filter upper|replace('A', 'x') %}abc{{ s }}{% endfilter %}", "{% filter indent(2) %}a\nb{% endfilter %}",
    "{% generation %}{{ n }}{% set q = 1 %}{% endgeneration %}{{ q }}", "{% for i in w %}{% generation %}{{ i }}{{ loop.index }}{% endgeneration %}{% endfor %}", "{%- generation -%} x {%- endgeneration -%} y",
    "a\n  {% if n %}\n  b\n  {% endif %}\n  c\n", "a\n  {%- if n -%}\n  b\n  {%- endif -%}\n  c\n", "a\n  {%+ if n +%}\n  b\n  {%+ endif +%}\n  c\n\n", "  {{ n }}  \n  {{- n -}}  \n{{ n }}\n", "a {# c #} b\n  {# d #}\nx{#- e -#} y", "a\n{# c +#}\nb", "{{ '\n' }}\r\nx\ry",
    "{% raw %} {{ n }} {% if %} {% endraw %} b", "{%- raw -%}  {{ n }}  {%- endraw -%}  b", "a\n  {% raw %}\n b\n  {% endraw %}\n c", "{% raw %}{% endraw %}x", "{{ {'a': {'b': n}}.a.b }}{{ {'a': 1}['a'] }}", "{{'}}'}}{{ \"%}\" }}", "{ % { { {# #}", "{{n}}{{-n}}{{ -n }}",
    "\t\f{% if n %}x{% endif %}", "x\u00a0\n\u3000{% if n %}y{% endif %}", "{%if n%}a{%elif z%}b{%else%}c{%endif%}", "{% if z %}a{% elif n %}b{% else %}c{% endif %}", "{% if u %}a{% elif e %}b{% else %}c{% endif %}", "{% if n: %}x{% endif %}", "{% if %}x{% endif %}", "{% if n %}x", "{% endif %}", "{% if n %}{% endfor %}",
    "{% break %}", "{% macro f() %}{% break %}{% endmacro %}", "{% for i in w %}{% generation %}{% break %}{% endgeneration %}{% endfor %}", "{{ }}", "{{ n", "{% if n", "{# n", "{{ n n }}", "{{ (n }}", "{{ n) }}", "{{ [1, 2 }}", "{{ n | }}", "{{ n is }}", "{{ 1 is odd is even }}", "{{ 'a }}", "{{ n ! }}", "{{ n & 1 }}", "{% set = 1 %}", "{% set true = 1 %}", "{% for in w %}{% endfor %}", "{% nope %}", "{% macro f(a=1, b) %}{% endmacro %}", "{% set n.x.y = 1 %}", "{{ f(a=1, 2) }}", "{{ 5.upper() }}", "{{ .5 }}", "{{ 012 }}",
    "{{ raise_exception('No: ' ~ n) }}", "{% if z %}{{ raise_exception('x') }}{% endif %}ok", "{{ strftime_now('%Y') is string }}{{ strftime_now('%%') }}{{ strftime_now('') }}", "{{ strftime_now('%d %B %Y, %A, %j, %b, %m/%y') }}", "{{ bos_token }}{{ eos_token }}{{ unk_token }}", "{{ messages|length }}{{ tools }}{{ documents }}{{ add_generation_prompt }}",
]

# What Jinja renders and megalith refuses, by its name.
REFUSED = ["{% include 'x' %}", "{% import 'x' as y %}", "{% block a %}{% endblock %}", "{% autoescape true %}{% endautoescape %}", "{% print n %}", "{{ f(*l) }}", "{{ dict(**d) }}", "{{ s.format(1) }}", "{{ '%s' % n }}", "{{ s|format(1) }}", "{{ s|urlencode }}",
           "{{ s|center }}", "{{ s|truncate(3) }}", "{{ s|wordwrap }}", "{{ s|striptags }}", "{{ w|slice(2) }}", "{{ w|random }}", "{{ d|xmlattr }}", "{{ d|pprint }}", "{{ lipsum() }}", "{{ joiner() }}", "{{ s.swapcase() }}", "{{ s.encode() }}", "{{ s.zfill(3) }}",
           "{{ 0x10 }}", "{{ 2 ** 64 }}", "{{ '\\N{DASH}' }}", "{{ w|map('upper') }}", "{% for i in w recursive %}{% endfor %}", "{{ d.get }}", "{{ d.items }}", "{{ cycler }}", "{{ self is defined }}", "{{ range(5)[1:3] }}", "{% macro f() %}{% endmacro %}{{ f }}", "{{ s.isalnum() }}", "{{ 99999999999999999999 }}"]
