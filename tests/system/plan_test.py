#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans of layouts that this machine could not run: python3 plan_test.py PROGRAM"""
import json
import unittest

from program import RoadTest, run, run_json

GIB = 1 << 30


class Plans(RoadTest):
    def plan(self, *settings):
        return json.loads(run("plan", *self.command("planned", *settings)[2:]))

    def test_the_papers_table(self):
        rows = run_json("plan", "--paper")["rows"]
        self.assertEqual([row["model"] for row in rows], ["22B", "175B", "530B", "1T"])
        for row, state, activations, reduced in zip(rows, (45.56, 45.56, 31.64, 32.96), (59.25, 66.84, 114.02, 131.25),
                                                    (9.56, 12.35, 23.08, 26.56)):
            for name, published in (("state", state), ("activation", activations), ("reduced", reduced)):
                self.assertEqual(row[f"{name}_gib_paper"], published)
                self.assertAlmostEqual(row[f"{name}_bytes"] / GIB, published, delta=0.002 * published)
        self.assertAlmostEqual(rows[0]["head_activation_bytes"] / GIB, 0.219, delta=0.001)  # 4 s b (h + v) / t
        text = run("plan", "--paper")
        self.assertIn("175B", text)
        self.assertEqual({len(line) for line in text.splitlines()[2:]}, {145})

    def test_a_layout_is_planned_stage_by_stage(self):
        one = self.plan()
        self.assertEqual(one["ranks"], 1)
        self.assertEqual(one["per_rank"][0]["wire_bytes"], 0)
        many = self.plan("parallel.tensor=2", "parallel.pipeline=2", "parallel.sequence=true")
        self.assertEqual(many["ranks"], 4)
        self.assertEqual({r["stage"] for r in many["per_rank"]}, {0, 1})
        self.assertEqual(sum(r["ranks_alike"] for r in many["per_rank"]), 4)
        for rank in many["per_rank"]:
            self.assertEqual(sum(rank["wire_bytes_by_kind"].values()), rank["wire_bytes"])
            self.assertGreater(rank["wire_bytes_by_kind"]["all_gather_again"], 0)
            self.assertLess(rank["memory"]["weights"], one["memory"]["weights"])
        self.assertGreater(many["bubble"], 0)

    def test_what_recomputation_saves(self):
        kept = [choice["kept_bytes_per_layer"] for choice in self.plan()["recompute"]]
        self.assertGreater(kept[0], kept[1])
        self.assertGreater(kept[1], kept[2])
        full, some, none = (self.plan(*s)["memory"]["activations"]
                            for s in (["memory.recompute=full"], ["memory.recompute_layers=1"], []))
        self.assertLess(full, some)
        self.assertLess(some, none)

    def test_spread_optimizer_state(self):
        layout = ("parallel.data_shards=2", "parallel.data=2", "train.micro_batch=1")
        whole, spread = self.plan(*layout), self.plan(*layout, "parallel.zero=1")
        self.assertLess(spread["memory"]["optimizer"], whole["memory"]["optimizer"])
        self.assertEqual(spread["memory"]["weights"], whole["memory"]["weights"])

    def test_the_schedule_is_drawn(self):
        page, trace = self.folder / "schedule.html", self.folder / "schedule.json"
        for path in (page, trace):
            run("plan", self.recipe, "--set", "parallel.pipeline=2", "--timeline", path)
        passes = [event for event in json.loads(trace.read_text()) if event["ph"] == "X"]
        self.assertEqual({event["pid"] for event in passes}, {0, 1})
        self.assertEqual(page.read_text().count('<rect class="f"'), len(passes) // 2)

    def test_faults(self):
        run("plan", code=2)
        run("plan", self.recipe, "--paper", code=2)
        message = run("plan", self.recipe, "--set", "parallel.zero=2", code=2)
        self.assertIn("parallel.zero", message)


if __name__ == "__main__":
    unittest.main()
