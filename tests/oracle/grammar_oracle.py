#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares grammars of JSON schemas with the validator `jsonschema`.

Walks:    texts that a random choice of allowed tokens writes, of the schemas below and of random ones, must parse and be valid
Texts:    values that are valid, written as the grammar writes JSON, must be taken; what is taken of changed ones must be valid
Patterns: what is taken of a `pattern` must be found by Python's `re`, what is taken of an expression must match as a whole

    grammar_oracle.py --walks build/ci/tests/grammar_walks
"""
import argparse
import json
import random
import re
import subprocess
import sys

import jsonschema

from comparison import Checks

PERSON = {"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
                                           "email": {"type": "string", "format": "email"}, "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 3}},
          "required": ["name", "age"], "additionalProperties": False}
SCHEMAS = [
    {}, True, PERSON, {"type": "array", "items": PERSON, "minItems": 1, "maxItems": 3},
    {"type": "object", "properties": {"steps": {"type": "array", "items": {"$ref": "#/$defs/step"}}, "final_answer": {"type": "string"}},
     "required": ["steps", "final_answer"], "$defs": {"step": {"type": "object", "properties": {"explanation": {"type": "string"}, "output": {"type": "string"}},
                                                               "required": ["explanation", "output"], "additionalProperties": False}}},
    {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"value": {"type": "number"}, "left": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                                                                                 "right": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["value"]}}},
    {"anyOf": [{"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number", "exclusiveMinimum": 0}}, "required": ["kind", "radius"]},
               {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number", "exclusiveMinimum": 0, "maximum": 10.5}}, "required": ["kind", "side"]}]},
    {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 4},
    {"type": "object", "properties": {"a": {"type": "string"}, "ab": {"type": "null"}}, "additionalProperties": {"type": "boolean"}},
    {"type": "object", "properties": {"when": {"type": "string", "format": "date-time"}, "day": {"type": "string", "format": "date"}, "id": {"type": "string", "format": "uuid"},
                                      "address": {"type": "string", "format": "ipv4"}, "host": {"type": "string", "format": "hostname"}}},
    {"type": ["string", "null", "integer"]}, {"type": "string", "pattern": "^\\d{3}-[a-f]{2}$"}, {"type": "string", "pattern": "a+b", "maxLength": 6},
    {"enum": ["x", 1, None, {"a": [1, {"b": "c"}]}, "xy", 2.5, [], {}]}, {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "null"}},
    {"allOf": [{"$ref": "#/$defs/a"}, {"properties": {"y": {"type": "integer"}}, "required": ["y"]}],
     "$defs": {"a": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}}},
    {"type": "object", "properties": {"kind": {"type": "string"}, "a": {"type": "integer"}}, "required": ["kind"],
     "anyOf": [{"properties": {"kind": {"enum": ["p", "q"]}}, "required": ["a"]}, {"properties": {"kind": {"const": "r"}}}]},
    {"type": "number", "minimum": 0, "maximum": 1}, {"type": "number", "exclusiveMinimum": -0.125, "exclusiveMaximum": 3e2}, {"type": "integer", "minimum": -17, "maximum": 2305},
    {"type": "object", "properties": {"é\"\\\n": {"const": "\u0001\t\"😀"}}, "required": ["é\"\\\n"]},
]
NAMES = ["a", "ab", "b", "name", "é", "x y", "kind"]


def random_schema(dice, depth):
    """A schema of the supported subset, and a function that gives valid values in the order that the grammar has."""
    kind = dice.choice(["null", "boolean", "integer", "number", "string", "enum", "any"] + ["object", "array", "anyOf", "pattern"] * (2 if depth > 0 else 0))
    if kind == "null":
        return {"type": "null"}, lambda: None
    if kind == "boolean":
        return {"type": "boolean"}, lambda: dice.random() < 0.5
    if kind == "integer":
        least = dice.choice([None, dice.randint(-1000, 1000)])
        most = dice.choice([None, (least or 0) + dice.randint(0, 3000)])
        schema = {"type": "integer", **({"minimum": least} if least is not None else {}), **({"maximum": most} if most is not None else {})}
        low = least if least is not None else (most if most is not None else 0) - 500
        return schema, lambda: dice.randint(low, most if most is not None else low + 5000)
    if kind == "number":
        least, width = round(dice.uniform(-20, 20), dice.randint(0, 3)), dice.choice([1, 0.5, 12])
        most = round(least + width, 3)
        return {"type": "number", "minimum": least, "maximum": most}, lambda: min(max(round(dice.uniform(least, most), 4), least), most) + 0.0
    if kind == "string":
        least, most = dice.randint(0, 3), dice.randint(3, 8)
        schema = {"type": "string", **({"minLength": least} if dice.random() < 0.5 else {}), **({"maxLength": most} if dice.random() < 0.5 else {})}
        return schema, lambda: "".join(dice.choice('ab"\\\n\x07é😀 {') for _ in range(dice.randint(least, most)))
    if kind == "enum":
        values = [dice.choice(["a", "é", 1, -2.5, True, None, "ab", {"x": [None]}, []]) for _ in range(dice.randint(1, 4))]
        return {"enum": values}, lambda: dice.choice(values)
    if kind == "any":
        return dice.choice([True, {}]), lambda: dice.choice([1, "x", [1, []], {"a": {"b": None}}, None])
    if kind == "pattern":
        pattern, texts = dice.choice([("^[ab]{2,4}$", ["ab", "bbab"]), ("\\d+", ["a1", "22"]), ("^(x|yy)*$", ["", "xyy"]), ("é.?$", ["é", "aé1"])])
        return {"type": "string", "pattern": pattern}, lambda: dice.choice(texts)
    if kind == "array":
        items, value = random_schema(dice, depth - 1)
        least, most = dice.randint(0, 2), dice.randint(2, 4)
        return {"type": "array", "items": items, "minItems": least, "maxItems": most}, lambda: [value() for _ in range(dice.randint(least, most))]
    if kind == "anyOf":
        parts = [random_schema(dice, depth - 1) for _ in range(dice.randint(1, 3))]
        return {"anyOf": [schema for schema, _ in parts]}, lambda: dice.choice(parts)[1]()
    names = dice.sample(NAMES, dice.randint(0, 4))
    parts = {name: random_schema(dice, depth - 1) for name in names}
    required = [name for name in names if dice.random() < 0.5]
    schema = {"type": "object", "properties": {name: part for name, (part, _) in parts.items()}, "required": required}
    others = dice.choice([None, False, True])
    if others is not None:
        schema["additionalProperties"] = others
    may_have_others = others or (others is None and not names and not required)

    def value():
        result = {name: make() for name, (_, make) in parts.items() if name in required or dice.random() < 0.5}
        if may_have_others and dice.random() < 0.5:
            result["other"] = [1]
        return result
    return schema, value


def changed(value, dice):
    """A value that is nearly this one."""
    if isinstance(value, dict) and value:
        name = dice.choice(list(value))
        return dice.choice([{k: v for k, v in value.items() if k != name}, {**value, name: changed(value[name], dice)}, {**value, "zz": 1}])
    if isinstance(value, list) and value:
        place = dice.randrange(len(value))
        return dice.choice([value[:place] + value[place + 1:], value[:place] + [changed(value[place], dice)] + value[place + 1:], value + value])
    if isinstance(value, bool) or value is None:
        return dice.choice([True, None, 0])
    if isinstance(value, (int, float)):
        return dice.choice([value + 1, -value, value * 1000, "1"])
    return dice.choice([value + "a", value[1:], 7, None]) if isinstance(value, str) else [value]


class Walks:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **asked):
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the program ended at {asked}")
        return json.loads(line)


def is_valid(validator, text):
    try:
        return validator.is_valid(json.loads(text))
    except ValueError:
        return False


def validator_of(schema):
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


def compare_schemas(walks, checks, rounds):
    counts = {"walks": 0, "valid": 0, "changed": 0, "taken": 0}
    bad = []
    for seed in range(rounds):
        dice = random.Random(seed)
        values = []
        if seed < 3 * len(SCHEMAS):
            schema, make = SCHEMAS[seed % len(SCHEMAS)], None
        else:
            schema, make = random_schema(dice, 3)
            values = [make() for _ in range(5)]
        validator = validator_of(schema)
        near = [changed(value, dice) for value in values for _ in range(3)]
        texts = [json.dumps(value, ensure_ascii=False, separators=dice.choice([(",", ":"), (", ", ": ")])) for value in values + near]
        answer = walks.ask(schema=json.dumps(schema), seed=seed, walks=6, steps=dice.randint(1, 25), texts=texts)
        if "refused" in answer:
            bad.append(f"refused: {schema}: {answer['refused']}")
            continue
        counts["walks"] += len(answer["walks"])
        bad += [f"not valid: {schema}: {text}" for text in answer["walks"] if not is_valid(validator, text)]
        for text, fits, value in zip(texts, answer["fits"], values):
            assert validator.is_valid(value), (schema, value)
            counts["valid"] += 1
            if not fits:
                bad.append(f"not taken: {schema}: {text}")
        for text, fits in zip(texts[len(values):], answer["fits"][len(values):]):
            counts["changed"] += 1
            counts["taken"] += fits
            if fits and not is_valid(validator, text):
                bad.append(f"taken: {schema}: {text}")
    for line in bad[:10]:
        print(line)
    checks.expect("schemas", not bad and counts["walks"] > 3 * rounds, f"{rounds} schemas, {counts['walks']} walks valid, {counts['valid']} valid texts taken, "
                  f"of {counts['changed']} changed ones {counts['taken']} taken and valid")


def compare_patterns(walks, checks, rounds):
    pieces = ["a", "b", "[a-c]", "[^a]", "\\d", "\\w", ".", "é", "(ab|c)", "a{2,3}", "(a|b)*", "x?", "\\.", "[\\]\\-]", "(?:q+)"]
    bad, count = [], 0
    for seed in range(rounds):
        dice = random.Random(seed)
        pattern = dice.choice(["", "^"]) + "".join(dice.choice(pieces) for _ in range(dice.randint(1, 4))) + dice.choice(["", "$"])
        texts = ["".join(dice.choice("abcqx1.é]-\n") for _ in range(dice.randint(0, 5))) for _ in range(40)]
        as_whole = seed % 2 == 1
        asked = {"regex": pattern, "texts": texts} if as_whole else {
            "schema": json.dumps({"type": "string", "pattern": pattern}), "texts": [json.dumps(t, ensure_ascii=False) for t in texts]}
        answer = walks.ask(seed=seed, walks=5, steps=4, **asked)
        python = pattern.replace("\\d", "[0-9]").replace("\\w", "[A-Za-z0-9_]")
        found = re.compile(python[:-1] + "\\Z" if python.endswith("$") else python)
        matches = found.fullmatch if as_whole else found.search
        bad += [f"{pattern}: walk {text!r}" for text in answer["walks"] if not matches(text if as_whole else json.loads(text))]
        for text, fits in zip(texts, answer["fits"]):
            count += 1
            if fits != bool(matches(text)):
                bad.append(f"{pattern}: {text!r} {fits}")
    for line in bad[:10]:
        print(line)
    checks.expect("patterns", not bad, f"{rounds} patterns, {count} texts")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--walks", required=True)
    parser.add_argument("--rounds", type=int, default=1500)
    arguments = parser.parse_args()
    checks, walks = Checks(), Walks(arguments.walks)
    compare_schemas(walks, checks, arguments.rounds)
    compare_patterns(walks, checks, arguments.rounds)
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
