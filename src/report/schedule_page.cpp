// SPDX-License-Identifier: Apache-2.0
#include "report/schedule_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "report/html.h"
#include "report/trace_writer.h"

namespace megalith::report {
namespace {

constexpr double kWidth = kScheduleWidth;
constexpr double kLabels = 90;
constexpr int kRow = 22;
/// Narrower bars have no number in them.
constexpr double kTextWidth = 16;

constexpr const char* kPage = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{title}}</title><style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 24px; color: #1b1f24; background: #fff; }
h1 { font-size: 18px; margin: 0 0 4px; } p { margin: 0 0 2px; color: #57606a; }
svg { width: 100%; height: auto; margin-top: 14px; } text { font: 10px system-ui, sans-serif; }
{{bars}}</style></head><body><h1>{{title}}</h1>
{{facts}}<p>Blue: forward, green: backward, paler: every second chunk, grey: idle.
Numbers are micro-batches.</p>
<svg viewBox="0 0 {{width}} {{height}}" role="img" aria-label="{{title}}">
{{rows}}</svg></body></html>
)";

double end_of(const SchedulePicture& picture) {
  double end = 0;
  for (const ScheduleBar& bar : picture.bars) end = std::max(end, bar.end);
  return end > 0 ? end : 1;
}

std::string name_of(const ScheduleBar& bar) {
  return fmt::format("{} of micro-batch {}, chunk {}", bar.backward ? "backward" : "forward",
                     bar.micro_batch, bar.chunk);
}

void append_bar(const ScheduleBar& bar, double scale, std::string& rows) {
  const double x = kLabels + bar.begin * scale, width = (bar.end - bar.begin) * scale;
  const int y = bar.stage * kRow;
  fmt::format_to(std::back_inserter(rows),
                 "<rect class=\"{}{}\" x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\">"
                 "<title>{}: {:.4g} to {:.4g}</title></rect>\n",
                 bar.backward ? "b" : "f", bar.chunk % 2 == 1 ? " odd" : "", x, y + 2,
                 std::max(0.2, width - 0.5), kRow - 4, name_of(bar), bar.begin, bar.end);
  if (width < kTextWidth) return;
  fmt::format_to(std::back_inserter(rows), "<text class=\"n\" x=\"{:.2f}\" y=\"{}\">{}</text>\n",
                 x + width / 2, y + 15, bar.micro_batch);
}

void write_trace(const SchedulePicture& picture, File& file) {
  TraceWriter writer(file);
  for (size_t stage = 0; stage < picture.stages.size(); ++stage)
    writer.process_name(static_cast<int>(stage), picture.stages[stage]);
  for (const ScheduleBar& bar : picture.bars) {
    const TraceArgument arguments[] = {{"micro_batch", int64_t{bar.micro_batch}},
                                       {"chunk", int64_t{bar.chunk}}};
    writer.complete(bar.stage, 0, bar.backward ? "backward" : "forward", name_of(bar), bar.begin,
                    bar.end - bar.begin, arguments);
  }
  writer.finish();
}

}  // namespace

const char* const kScheduleCss =
    R"(.f { fill: #2f6fb5; } .f.odd { fill: #7fb0e3; } .b { fill: #2b8a57; }
.b.odd { fill: #86cda6; }
.lane { fill: #f1f3f5; } .n { fill: #fff; text-anchor: middle; }
)";

double schedule_height(const SchedulePicture& picture) {
  return static_cast<double>(picture.stages.size() * kRow);
}

std::string schedule_rows(const SchedulePicture& picture) {
  const double scale = (kWidth - kLabels) / end_of(picture);
  std::string rows;
  for (size_t stage = 0; stage < picture.stages.size(); ++stage) {
    const int y = static_cast<int>(stage) * kRow;
    fmt::format_to(std::back_inserter(rows),
                   "<text x=\"0\" y=\"{}\">{}</text><rect class=\"lane\" x=\"{}\" y=\"{}\" "
                   "width=\"{}\" height=\"{}\"/>\n",
                   y + 15, escape_html(picture.stages[stage]), kLabels, y + 2, kWidth - kLabels,
                   kRow - 4);
  }
  for (const ScheduleBar& bar : picture.bars) append_bar(bar, scale, rows);
  return rows;
}

std::string schedule_page(const SchedulePicture& picture) {
  std::string facts;
  for (const std::string& fact : picture.facts) facts += "<p>" + escape_html(fact) + "</p>\n";
  return fill_template(kPage, {{"title", escape_html(picture.title)},
                               {"facts", facts},
                               {"width", fmt::format("{}", kWidth)},
                               {"height", fmt::format("{}", schedule_height(picture))},
                               {"bars", kScheduleCss},
                               {"rows", schedule_rows(picture)}});
}

void write_schedule(const SchedulePicture& picture, const std::filesystem::path& path) {
  if (path.extension() == ".json")
    return write_file_durable(path, [&](File& file) { write_trace(picture, file); });
  write_file_durable(path, schedule_page(picture));
}

}  // namespace megalith::report
