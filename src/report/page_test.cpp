// SPDX-License-Identifier: Apache-2.0
// The page is checked as text: nothing is loaded from elsewhere, nothing from the run becomes
// markup, and the numbers in it are the run's.
#include "report/page.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "report/chart_data.h"
#include "report/sections.h"
#include "report/test_folder.h"

namespace megalith::report {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kHostile = "</script><script>alert(1)</script><!-- \"'& <img src=http://x/>";

class Page : public testing::Test {
 protected:
  Page() {
    folder_.put("recipe.yaml", "model:\n  kind: decoder\n  layers: 2\n# </pre><script>\n");
    folder_.put("chart.js", "var Chart='</script>';");
    put_run({{"name", "demo"}});
    put_steps(10);
  }

  void put_run(const nlohmann::json& run) const { folder_.put("run.json", run.dump()); }
  void put_steps(int64_t count) const {
    std::string lines;
    for (int64_t step = 1; step <= count; ++step) lines += some_metrics(step).to_json_line();
    folder_.put("metrics.jsonl", lines);
  }
  std::string page() const {
    return read_file(write_report(folder_.path(), {folder_ / "absent", folder_ / "chart.js"}));
  }
  static nlohmann::json data_of(const std::string& page) {
    const std::string open = "<script type=\"application/json\" id=\"data\">";
    const size_t begin = page.find(open) + open.size();
    return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  }

  TestFolder folder_;
};

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(Page, IsWrittenBesideTheRun) {
  const auto path = write_report(folder_.path(), {folder_ / "chart.js"});
  EXPECT_EQ(path, folder_ / "report.html");
  EXPECT_THAT(read_file(path), HasSubstr("<h1>demo</h1>"));
  EXPECT_THAT(read_file(path), HasSubstr("decoder, 2 layers"));
}

/// Fails where `text` names anything that a browser would fetch.
void expect_self_contained(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* load : {" src=", "srcset=", " action=", ":url(", ": url(", "@import", "import(",
                           "fetch(", "xmlhttprequest", "sendbeacon", "websocket"}) {
    EXPECT_EQ(count_of(text, load), 0u) << load;
  }
  // One link, the empty icon, which keeps browsers from asking for one.
  EXPECT_EQ(count_of(text, "<link"), 1u);
  EXPECT_EQ(count_of(text, " href="), 1u);
  EXPECT_EQ(count_of(text, "<link rel=\"icon\" href=\"data:,\">"), 1u);
}

TEST_F(Page, LoadsNothingFromElsewhere) {
  put_run({{"name", "demo"}, {"version", "see http://example.org"}});
  expect_self_contained(page());
}

TEST_F(Page, LoadsNothingFromElsewhereWithTheInstalledLibrary) {
  const auto paths = chart_js_paths();
  if (std::none_of(paths.begin(), paths.end(), [](const auto& p) { return exists(p); })) {
    GTEST_SKIP() << "Chart.js is not installed";
  }
  const std::string text = read_file(write_report(folder_.path()));
  expect_self_contained(text);
  EXPECT_EQ(count_of(text, "</script"), 3u);
  EXPECT_THAT(text, HasSubstr("Chart.js v"));
}

TEST_F(Page, NothingFromTheRunBecomesMarkup) {
  put_run({{"name", kHostile},
           {"status", kHostile},
           {"version", kHostile},
           {"machine", {{"cpu", kHostile}, {"host", kHostile}}}});
  folder_.put("samples.jsonl", TextSample{1, kHostile, kHostile}.to_json_line() +
                                   TextSample{2, kHostile, "x"}.to_json_line());
  const std::string text = page();
  EXPECT_EQ(count_of(text, "<script"), 3u);  // data, Chart.js, page.js
  EXPECT_EQ(count_of(text, "</script"), 3u);
  EXPECT_EQ(count_of(text, "<!--"), 0u);
  EXPECT_EQ(count_of(text, "<img"), 0u);
  EXPECT_THAT(text, HasSubstr("&lt;/pre&gt;&lt;script&gt;"));  // the recipe
  EXPECT_THAT(text, HasSubstr("<\\/script>"));                 // the library
  EXPECT_NO_THROW(data_of(text));
}

TEST_F(Page, SaysWhereTheTimeWent) {
  EXPECT_THAT(page(), HasSubstr("<article class=\"card\" hidden>\n<h2>Time"));
  put_run({{"accounts", {{"buckets", {{"steps", 75.0}, {"lost_steps", 25}, {"idle", 0}}}}}});
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("<th scope=\"row\">lost steps</th>"));
  EXPECT_THAT(text, HasSubstr("<small>75.000 s</small></td><td class=\"number\">75.0 %</td>"));
  EXPECT_THAT(text, HasSubstr("100.0 %"));
  EXPECT_THAT(text, Not(HasSubstr(">idle<")));
  // Every bucket that a run knows.
  nlohmann::ordered_json buckets;
  for (const char* name : {"start", "load", "data_wait", "steps", "lost_steps", "skipped",
                           "checkpoint", "validation", "samples", "logging", "idle"})
    buckets[name] = 0.001;
  put_run({{"accounts", {{"buckets", buckets}}}});
  const std::string all = page();
  for (const auto& [name, seconds] : buckets.items()) {
    std::string row = "<th scope=\"row\">" + name + "</th>";
    std::replace(row.begin() + 16, row.end(), '_', ' ');
    EXPECT_THAT(all, HasSubstr(row));
  }
  put_run({{"accounts", {{"buckets", {{"steps", "75"}}}}}});
  EXPECT_THROW(page(), IntegrityError);
}

TEST_F(Page, CurvesAreTheRunsNumbers) {
  std::string lines;
  for (int64_t step = 1; step <= 4; ++step) {
    StepMetrics metrics = some_metrics(step);
    metrics.loss = 8.0 / static_cast<double>(step);
    if (step == 2) metrics.loss = NAN;
    if (step == 4) metrics.validation_loss = 1.5;
    lines += metrics.to_json_line();
  }
  folder_.put("metrics.jsonl", lines + "{\"torn");
  const std::string text = page();
  const nlohmann::json curves = data_of(text).at("curves");
  EXPECT_EQ(curves.at("loss").at("x"), nlohmann::json({1, 3, 4}));
  EXPECT_EQ(curves.at("loss").at("y"), nlohmann::json({8.0, 2.666667, 2.0}));
  EXPECT_EQ(curves.at("validation_loss"), nlohmann::json({{"x", {4}}, {"y", {1.5}}}));
  EXPECT_EQ(curves.at("mfu").at("y"), nlohmann::json({12.5, 12.5, 12.5, 12.5}));
  EXPECT_THAT(text, HasSubstr("At 1 step the loss was not a finite number, first at step 2"));
}

TEST_F(Page, LossesOfTasksAreCurvesAndRows) {
  EXPECT_EQ(count_of(data_of(page()).dump(), "validation_loss/"), 0u);
  std::string lines;
  for (int64_t step = 1; step <= 2; ++step) {
    StepMetrics metrics = some_metrics(step);
    metrics.validation_loss = 1.5;
    metrics.validation_task_losses = {{"squad", static_cast<double>(step)}, {"boolq", 0.5}};
    if (step == 2) metrics.validation_task_losses.erase(metrics.validation_task_losses.begin() + 1);
    if (step == 2) metrics.validation_task_losses.emplace_back(kHostile, 3);
    lines += metrics.to_json_line();
  }
  folder_.put("metrics.jsonl", lines);
  const std::string text = page();
  const nlohmann::json curves = data_of(text).at("curves");
  EXPECT_EQ(curves.at("validation_loss/squad"), nlohmann::json({{"x", {1, 2}}, {"y", {1.0, 2.0}}}));
  EXPECT_EQ(curves.at("validation_loss/boolq"), nlohmann::json({{"x", {1}}, {"y", {0.5}}}));
  // The last validation's stand beside its perplexity, as text.
  EXPECT_THAT(text, HasSubstr("<th scope=\"row\">validation loss of squad</th><td>2.0000</td>"));
  EXPECT_THAT(text, Not(HasSubstr("validation loss of boolq")));
  EXPECT_THAT(text, HasSubstr("validation perplexity"));
  EXPECT_EQ(count_of(text, "<script"), 3u);
  // Curves are of the first tasks alone, rows of all.
  StepMetrics many = some_metrics(1);
  many.validation_loss = 1;
  for (size_t task = 0; task < 2 * kMaxTasks; ++task)
    many.validation_task_losses.emplace_back(fmt::format("task-{}", task), 1);
  folder_.put("metrics.jsonl", many.to_json_line());
  EXPECT_EQ(count_of(data_of(page()).dump(), "validation_loss/task-"), kMaxTasks);
  EXPECT_EQ(count_of(page(), "validation loss of task-"), 2 * kMaxTasks);
}

TEST_F(Page, ALossScaleAndTheStepsItSkippedAreShown) {
  put_steps(2);
  EXPECT_EQ(data_of(page()).at("curves").at("loss_scale").at("x").size(), 0u);
  EXPECT_THAT(page(), ::testing::Not(HasSubstr("steps skipped for overflows")));
  std::string lines;
  for (int64_t step = 1; step <= 3; ++step) {
    StepMetrics metrics = some_metrics(step);
    metrics.loss_scale = step == 1 ? 65536 : 32768;
    metrics.overflowed_steps = 1;
    if (step == 1) metrics.grad_norm = std::numeric_limits<double>::quiet_NaN();
    lines += metrics.to_json_line();
  }
  folder_.put("metrics.jsonl", lines);
  const std::string text = page();
  EXPECT_EQ(data_of(text).at("curves").at("loss_scale").at("y"),
            nlohmann::json({65536.0, 32768.0, 32768.0}));
  EXPECT_THAT(text, HasSubstr("1 step was skipped: gradients overflowed under the loss scale."));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("the gradient norm was not a finite number")));
  StepMetrics bad = some_metrics(4);  // that no scale skipped: said
  bad.overflowed_steps = 1;
  bad.grad_norm = std::numeric_limits<double>::quiet_NaN();
  folder_.put("metrics.jsonl", lines + bad.to_json_line());
  EXPECT_THAT(page(),
              HasSubstr("At 1 step the gradient norm was not a finite number, first at step 4"));
  EXPECT_THAT(text, HasSubstr("<th scope=\"row\">loss scale</th><td>32768</td>"));
}

TEST_F(Page, LongRunsAreThinnedAndSmoothed) {
  put_steps(10000);
  const nlohmann::json data = data_of(page());
  EXPECT_EQ(data.at("window"), 200);
  for (const auto& [name, curve] : data.at("curves").items()) {
    EXPECT_LE(curve.at("x").size(), size_t{kMaxPoints}) << name;
    EXPECT_EQ(curve.at("x").size(), curve.at("y").size()) << name;
  }
  EXPECT_EQ(data.at("curves").at("loss").at("x").back(), 10000);
  EXPECT_TRUE(data.at("curves").contains("loss_smooth"));
}

TEST_F(Page, MemoryShowsPlannedAgainstMeasuredToTheByte) {
  put_run({{"memory",
            {{"planned", {{"weights", 1536}, {"activations", 100000}, {"total", 101536}}},
             {"measured",
              {{"weights", 1536}, {"activations", 100064}, {"outside", 7}, {"total", 101600}}}}}});
  const std::string text = page();
  const nlohmann::json memory = data_of(text).at("memory");
  ASSERT_EQ(memory.size(), 4u);
  EXPECT_EQ(memory[0],
            nlohmann::json({{"name", "weights"}, {"planned", 1536}, {"measured", 1536}}));
  EXPECT_EQ(memory[2],
            nlohmann::json({{"name", "outside"}, {"planned", nullptr}, {"measured", 7}}));
  EXPECT_THAT(text, HasSubstr("1.50 KiB<small>1,536</small>"));
  EXPECT_THAT(text, HasSubstr("equal\">exact</td>"));
  EXPECT_THAT(text, HasSubstr("differs\">+64</td>"));
}

TEST_F(Page, ARunWithoutStepsStillHasAPage) {
  put_steps(0);
  put_run(nlohmann::json::object());
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("<p class=\"notice quiet\" >No step"));
  EXPECT_THAT(text, HasSubstr("<div class=\"grid\" hidden>"));
  EXPECT_THAT(text, HasSubstr("<h1>" + folder_.path().filename().string() + "</h1>"));
}

TEST_F(Page, MissingFilesAreNamed) {
  for (const char* name : {"recipe.yaml", "run.json", "metrics.jsonl"}) {
    const std::string content = read_file(folder_ / name);
    std::filesystem::remove(folder_ / name);
    try {
      page();
      FAIL() << name << " was not missed";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(name));
    }
    folder_.put(name, content);
  }
  EXPECT_THROW(write_report(folder_ / "absent"), UserError);
  try {
    write_report(folder_.path(), {folder_ / "absent"});
    FAIL() << "Chart.js was not missed";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("libjs-chart.js"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "report.html"));
}

TEST_F(Page, DamagedFilesAreRefused) {
  folder_.put("run.json", "[1]");
  EXPECT_THROW(page(), IntegrityError);
  put_run({{"machine", {{"threads", "two"}}}});
  EXPECT_THROW(page(), IntegrityError);
  put_run({{"machine", "laptop"}});  // a parent of another kind: its parts are not there
  EXPECT_NO_THROW(page());
  folder_.put("recipe.yaml", "a: [");
  EXPECT_THROW(page(), IntegrityError);
}

TEST_F(Page, LongListsOfSamplesAreThinnedWithFirstAndLastKept) {
  std::string lines;
  for (int64_t step = 1; step <= 100; ++step) {
    lines += TextSample{step * 1000, "once", "text " + std::to_string(step)}.to_json_line();
  }
  folder_.put("samples.jsonl", lines);
  const std::string text = page();
  EXPECT_EQ(count_of(text, "<li>"), 24u);
  EXPECT_THAT(text, HasSubstr("step 1,000<"));
  EXPECT_THAT(text, HasSubstr("step 100,000<"));
  EXPECT_THAT(text, HasSubstr("24 of 100 samples."));
}

TEST(SamplesSection, SaysHowManyAreLeftOut) {
  RunRecord record;
  record.samples.newest = {{7, "p", "t"}};
  EXPECT_THAT(samples_html(record), Not(HasSubstr("left out")));
  record.samples.earlier = 1234;
  EXPECT_THAT(samples_html(record), HasSubstr("The earliest 1,234 are left out"));
}

/// As `evaluate tasks --output RUN/tasks` writes them.
TEST_F(Page, ScoresOnTasksStandByCheckpoint) {
  EXPECT_THAT(page(), Not(HasSubstr("exact_match")));
  const auto put = [&](const char* folder, const char* date, const char* model, double acc) {
    std::filesystem::create_directories(folder_.path() / "tasks" / folder);
    const std::string name = fmt::format("tasks/{}/results_{}.json", folder, date);
    folder_.put(name.c_str(),
                fmt::format(R"({{"results": {{"pi<qa": {{"alias": "x", "acc,none": {}, )"
                            R"("acc_stderr,none": 0.25, "exact_match,strict": 0.5, )"
                            R"("exact_match_stderr,strict": "N/A"}}}}, "model_name": "{}"}})",
                            acc, model));
  };
  put("a", "2026-01-01", "runs/x/checkpoints/step-00000100", 0.125);
  put("a", "2026-01-02", "runs/x/checkpoints/step-00000100/", 0.375);  // newer
  put("b", "2026-01-01", "runs/x/checkpoints/step-00000200", 0.625);
  const std::string text = page();
  EXPECT_THAT(text,
              HasSubstr("<th scope=\"col\">step-00000100</th><th scope=\"col\">step-00000200"));
  EXPECT_THAT(text,
              HasSubstr("<th scope=\"row\">pi&lt;qa</th><td>acc</td><td class=\"number\">"
                        "0.3750<small>&plusmn; 0.2500</small></td><td class=\"number\">0.6250"));
  EXPECT_THAT(text, HasSubstr("<td>exact_match (strict)</td><td class=\"number\">0.5000</td>"));
  EXPECT_THAT(text, Not(HasSubstr("0.1250")));
  folder_.put("tasks/b/results_2026-01-03.json", "{}");
  EXPECT_THROW(page(), IntegrityError);
}

TEST_F(Page, AFolderOfScoresThatCannotBeReadIsNamed) {
  folder_.put("tasks", "no folder");
  EXPECT_THROW(page(), SystemError);
}

TEST_F(Page, ALongSampleIsCutBetweenCharacters) {
  std::string long_text;
  for (int i = 0; i < 2000; ++i) long_text += "\xE2\x82\xAC";  // three bytes each
  folder_.put("samples.jsonl", TextSample{1, "p", long_text}.to_json_line());
  EXPECT_THAT(page(), HasSubstr("\xE2\x82\xAC&hellip;"));
}

TEST(ChartJs, TheBuildNamesWhereToLook) {
  const auto paths = chart_js_paths();
  ASSERT_GE(paths.size(), 2u);
  EXPECT_THAT(paths, testing::Contains("/usr/share/javascript/chart.js/chart.min.js"));
  for (const auto& path : paths) EXPECT_TRUE(path.is_absolute()) << path;
}

}  // namespace
}  // namespace megalith::report
