# SPDX-License-Identifier: Apache-2.0
"""What the commands say of the prompts that clients send."""
import json

from comparison import run

PROMPTS = ["Once upon a time", "Lily and Ben went to the park.", "The little dog was", "One day, a big bear"]
NEW_TOKENS = 24


class Own:
    """What the commands say of the same prompts."""

    def __init__(self, program, model, folder):
        self.program, self.model, self.folder = program, model, folder

    def text(self, prompt):
        return run(self.program, "generate", "--checkpoint", self.model, "--prompt", prompt, "--max-new-tokens", NEW_TOKENS, "--temperature",
                   0)[0]

    def scores(self, ids):
        lines = self.folder / "lines.jsonl"
        lines.write_text("".join(json.dumps({"ids": i}) + "\n" for i in ids))
        return [line["logprobs"] for line in run(self.program, "evaluate", "score", "--checkpoint", self.model, "--input", lines)]
