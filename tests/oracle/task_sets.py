# SPDX-License-Identifier: Apache-2.0
"""The sets that tasks are compared on: those at hand under ../shared/data, in the form `datasets` exports, and, of tasks
whose own sets are not at hand, sets of the same form made of others' questions (XQuAD's, ARC's), so that prompts, choices
and rules are compared too."""
import ast
import json
import random

SQUAD_LETTERS = "ABCD"


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def write(path, documents):
    path.write_text("".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8")
    return path


def squad_questions(data):
    paragraphs = json.loads((data / "eval/xquad.en.json").read_text())["data"]
    return [(p["context"], q["question"], [a["text"] for a in q["answers"]]) for article in paragraphs for p in article["paragraphs"]
            for q in p["qas"]]


def own_sets(data, folder):
    """Sets at hand, whole."""
    hellaswag = [{**d, "label": str(d["label"])} for d in lines(data / "eval/hellaswag_1000.jsonl")]
    # Fields in one order, as `datasets` exports them. Its reader takes that of whichever part of the file a thread has read first.
    write(folder / "hellaswag_validation.jsonl", [{key: d[key] for key in hellaswag[0]} for d in hellaswag])
    labels = [int(label) for label in (data / "piqa/valid-labels.lst").read_text().split()]
    # Some answers are longer than the context of the smallest model: lm-eval ends there, as we do.
    piqa = [{**d, "label": label} for d, label in zip(lines(data / "piqa/valid.jsonl"), labels, strict=True)]
    write(folder / "piqa_validation.jsonl", [d for d in piqa if max(len(d["sol1"]), len(d["sol2"])) < 500])
    for name in ("lambada_openai", "lambada_standard"):
        write(folder / f"{name}_test.jsonl", lines(data / "eval/lambada_test.jsonl"))
    arc = [{"id": d["id"], "question": d["question"]["stem"], "answerKey": d["answerKey"],
            "choices": {"text": [c["text"] for c in d["question"]["choices"]], "label": [c["label"] for c in d["question"]["choices"]]}}
           for d in lines(data / "eval/arc_c_test.jsonl")]
    write(folder / "arc_challenge_test.jsonl", arc)
    write(folder / "arc_challenge_train.jsonl", arc[:100])
    write(folder / "arc_challenge_validation.jsonl", arc[:100])
    gsm8k = lines(data / "eval/gsm8k_test.jsonl")
    write(folder / "gsm8k_train.jsonl", gsm8k[1000:])
    write(folder / "gsm8k_test.jsonl", gsm8k[:1000])
    text = (data / "text/wikitext2-valid.txt").read_text(encoding="utf-8")
    pages, page = [], []
    for line in text.splitlines():
        heading = line.strip()
        if heading.startswith("= ") and not heading.startswith("= =") and page:
            pages.append("\n".join(page))
            page = []
        page.append(line)
    pages.append("\n".join(page))
    write(folder / "wikitext_test.jsonl", [{"page": p} for p in pages if p.strip()])
    for split in ("train", "validation"):
        write(folder / f"wikitext_{split}.jsonl", [{"page": p} for p in pages[:2]])


def made_sets(data, folder):
    """Sets of the right form made of other questions."""
    draw = random.Random(7)
    questions = squad_questions(data)
    write(folder / "boolq_validation.jsonl", [{"passage": c, "question": q.rstrip("?").lower(), "label": draw.randrange(2), "idx": i}
                                              for i, (c, q, _) in enumerate(questions[:400])])
    write(folder / "boolq_train.jsonl", [{"passage": c, "question": q.rstrip("?").lower(), "label": draw.randrange(2), "idx": i}
                                         for i, (c, q, _) in enumerate(questions[400:460])])
    trivia = [{"question": q.rstrip("?"), "answer": {"aliases": [*a, a[0].title(), "it's \"so\""], "value": a[0]}} for _, q, a in questions]
    write(folder / "triviaqa_validation.jsonl", trivia[:200])
    write(folder / "triviaqa_train.jsonl", trivia[200:260])
    # Each once: lm-eval answers requests of equal tokens from one another's logits, wherever their contexts end, so of two blanks
    # in one sentence it would score one at the places of the other.
    sentences = list(dict.fromkeys(s for c, _, _ in questions[::5] for s in c.split(". ") if len(s.split()) > 8))
    wino = []
    for i, sentence in enumerate(sentences[:400]):
        words = sentence.split()
        at = draw.randrange(3, len(words) - 2)
        options = [words[at], draw.choice(words)]
        answer = draw.randrange(2)
        if answer:
            options.reverse()
        words[at] = "_"
        wino.append({"sentence": " ".join(words) + ".", "option1": options[0], "option2": options[1], "answer": str(answer + 1)})
    write(folder / "winogrande_validation.jsonl", wino[:300])
    write(folder / "winogrande_train.jsonl", wino[300:])
    race, by_article = [], {}
    for context, question, answers in questions:
        by_article.setdefault(context, []).append((question, answers[0]))
    answers_all = [a[0] for _, _, a in questions]
    for context, asked in list(by_article.items())[:120]:
        problems = []
        for question, answer in asked:
            options = draw.sample(answers_all, 3)
            place = draw.randrange(4)
            options.insert(place, answer)
            blank = question.rstrip("?") + "  _  ." if draw.random() < 0.3 else question
            problems.append({"question": blank, "answer": SQUAD_LETTERS[place], "options": options})
        race.append({"article": context, "problems": repr(problems)})
    assert all(ast.literal_eval(d["problems"]) for d in race)
    write(folder / "race_test.jsonl", race)
    arc = [d for d in lines(data / "eval/arc_c_dev.jsonl") + lines(data / "eval/arc_c_test.jsonl") if len(d["question"]["choices"]) == 4]
    openbook = [{"id": d["id"], "question_stem": d["question"]["stem"], "answerKey": d["answerKey"],
                 "choices": {"text": [c["text"] for c in d["question"]["choices"]], "label": [c["label"] for c in d["question"]["choices"]]}}
                for d in arc[:300]]
    write(folder / "openbookqa_test.jsonl", openbook[:250])
    for split in ("train", "validation"):
        write(folder / f"openbookqa_{split}.jsonl", openbook[250:])
    easy = [{"id": d["id"], "question": d["question_stem"], "choices": d["choices"], "answerKey": d["answerKey"]} for d in openbook]
    for split in ("train", "validation", "test"):
        write(folder / f"arc_easy_{split}.jsonl", easy)
    subjects = ("anatomy", "astronomy", "marketing", "world_religions")
    for split, part in (("test", arc[:200]), ("dev", arc[300:340])):
        write(folder / f"mmlu_{split}.jsonl", [
            {"question": " " + d["question"]["stem"], "subject": subjects[i % 4], "choices": [c["text"] for c in d["question"]["choices"]],
             "answer": [c["label"] for c in d["question"]["choices"]].index(d["answerKey"])} for i, d in enumerate(part)])
