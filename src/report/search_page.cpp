// SPDX-License-Identifier: Apache-2.0
#include "report/search_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/check.h"
#include "base/file.h"
#include "report/html.h"

namespace megalith::report {
namespace {

constexpr const char* kSearchPage = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{title}}</title><style>
body { font: 14px/1.45 system-ui, sans-serif; margin: 24px auto; max-width: 1200px; padding: 0 16px;
  color: #1b1f24; background: #fff; }
h1 { font-size: 20px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 26px 0 6px; }
p { margin: 0 0 2px; color: #57606a; } svg { width: 100%; height: auto; }
text { font: 11px system-ui, sans-serif; } table { border-collapse: collapse; width: 100%; }
td, th { padding: 3px 8px; text-align: right; border-bottom: 1px solid #e5e8eb; }
td.l, th.l { text-align: left; } .key { display: inline-block; margin-right: 14px; }
.key i { display: inline-block; width: 11px; height: 11px; margin-right: 5px; }
.axis { stroke: #8b949e; } .limit { stroke: #c0392b; stroke-dasharray: 5 4; }
.pt { fill: #9aa4af; } .pt.best { fill: #c0392b; }
{{bars}}</style></head><body><h1>{{title}}</h1>
{{facts}}<h2>Ranking</h2>{{ranking}}
<h2>What a step is made of</h2>{{part_keys}}{{breakdown}}
<h2>Schedule of the best</h2><p>{{schedule_title}}. Blue: forward, green: backward with what is
computed again, paler: every second chunk, grey: idle.</p>
<svg viewBox="0 0 {{schedule_width}} {{schedule_height}}" role="img" aria-label="schedule">
{{schedule}}</svg>
<h2>Memory of the best by stage</h2>{{class_keys}}{{memory}}
<h2>Time against memory</h2>
<p>Red: the ranking; grey: nothing judged is both faster and smaller.</p>
{{points}}
<h2>What more would buy</h2>{{changes}}
<h2>Not among them</h2>{{refusals}}
<h2>What the prediction rests on</h2>{{assumptions}}
</body></html>
)";

constexpr std::array<const char*, 8> kColours = {"#2f6fb5", "#7fb0e3", "#d98324", "#b9bfc6",
                                                 "#8e5bb5", "#2b8a57", "#c0392b", "#5b6770"};
constexpr double kFrame = 1200, kNames = 330, kBarRow = 24;

const char* colour(size_t index) { return kColours[index % kColours.size()]; }

std::string paragraphs(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "<p>" + escape_html(line) + "</p>\n";
  return text;
}

std::string keys_of(const std::vector<std::string>& names) {
  std::string text = "<p>";
  for (size_t i = 0; i < names.size(); ++i)
    text += fmt::format("<span class=\"key\"><i style=\"background:{}\"></i>{}</span>", colour(i),
                        escape_html(names[i]));
  return text + "</p>\n";
}

struct Bar {
  std::string name;
  std::vector<double> values;
};

/// A row for each, values one behind the other, of one scale; a line at `limit` where it is not 0.
std::string stacked(const std::vector<Bar>& bars, const std::vector<std::string>& names,
                    const char* unit, double limit) {
  double most = limit;
  for (const Bar& bar : bars) {
    double sum = 0;
    for (const double value : bar.values) sum += value;
    most = std::max(most, sum);
  }
  const double scale = (kFrame - kNames - 60) / (most > 0 ? most : 1);
  const double height = kBarRow * static_cast<double>(bars.size());
  std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\">\n", kFrame, height + 4);
  for (size_t row = 0; row < bars.size(); ++row) {
    const double y = kBarRow * static_cast<double>(row);
    double x = kNames, sum = 0;
    fmt::format_to(std::back_inserter(svg), "<text x=\"0\" y=\"{}\">{}</text>\n", y + 16,
                   escape_html(bars[row].name));
    for (size_t i = 0; i < bars[row].values.size(); ++i) {
      const double width = bars[row].values[i] * scale;
      fmt::format_to(std::back_inserter(svg),
                     "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\">"
                     "<title>{}: {:.4g} {}</title></rect>\n",
                     x, y + 3, width, kBarRow - 6, colour(i), escape_html(names[i]),
                     bars[row].values[i], unit);
      x += width;
      sum += bars[row].values[i];
    }
    fmt::format_to(std::back_inserter(svg), "<text x=\"{:.2f}\" y=\"{}\">{:.4g} {}</text>\n", x + 5,
                   y + 16, sum, unit);
  }
  if (limit > 0) {
    const double x = kNames + limit * scale;
    fmt::format_to(std::back_inserter(svg),
                   "<line class=\"limit\" x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"0\" y2=\"{1}\"/>\n", x,
                   height);
  }
  return svg + "</svg>\n";
}

std::string ranking(const SearchPage& page) {
  std::string text =
      "<table><tr><th></th><th>s a step</th><th>MFU</th><th>GiB</th><th "
      "class=\"l\">layout</th></tr>"
      "\n";
  for (size_t i = 0; i < page.rows.size(); ++i) {
    const SearchPageRow& row = page.rows[i];
    text += fmt::format(
        "<tr><td>{}</td><td>{:.4g}</td><td>{:.1f} %</td><td>{:.1f}</td><td "
        "class=\"l\">{}</td></tr>\n",
        i + 1, row.seconds, 100 * row.mfu, row.gib, escape_html(row.layout));
  }
  return text + "</table>\n";
}

std::string breakdown(const SearchPage& page) {
  std::vector<Bar> bars;
  for (const SearchPageRow& row : page.rows) {
    std::string name = row.layout;
    if (name.size() > 52) name = name.substr(0, 50) + "...";
    bars.push_back({name, row.parts});
  }
  return stacked(bars, page.parts, "s", 0);
}

std::string memory(const SearchPage& page) {
  std::vector<Bar> bars;
  for (const SearchPageStage& stage : page.stages) bars.push_back({stage.name, stage.gib});
  return stacked(bars, page.classes, "GiB", page.limit_gib);
}

std::string scatter(const SearchPage& page) {
  constexpr double kHeight = 360, kLeft = 60, kBottom = 30;
  double least = page.points.front().seconds, longest = least, most = page.limit_gib;
  for (const SearchPagePoint& point : page.points) {
    least = std::min(least, point.seconds);
    longest = std::max(longest, point.seconds);
    most = std::max(most, point.gib);
  }
  const double across = longest > least ? longest - least : 1;
  const auto x = [&](double seconds) {
    return kLeft + 10 + (kFrame - kLeft - 40) * (seconds - least) / across;
  };
  const auto y = [&](double gib) { return (kHeight - kBottom) * (1 - gib / (1.05 * most)); };
  std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\">\n", kFrame, kHeight);
  const auto out = std::back_inserter(svg);
  fmt::format_to(out, "<line class=\"axis\" x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\"/>\n", kLeft,
                 kFrame, kHeight - kBottom);
  fmt::format_to(out, "<line class=\"axis\" x1=\"{0}\" x2=\"{0}\" y1=\"0\" y2=\"{1}\"/>\n", kLeft,
                 kHeight - kBottom);
  for (int i = 0; i <= 4; ++i) {
    const double seconds = least + across * i / 4, gib = most * i / 4;
    fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{}\">{:.4g} s</text>\n", x(seconds) - 14,
                   kHeight - 12, seconds);
    fmt::format_to(out, "<text x=\"0\" y=\"{:.1f}\">{:.3g} GiB</text>\n", y(gib) + 4, gib);
  }
  fmt::format_to(out, "<line class=\"limit\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                 kLeft, kFrame, y(page.limit_gib), y(page.limit_gib));
  for (const SearchPagePoint& point : page.points) {
    fmt::format_to(
        out,
        "<circle class=\"pt{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}: {:.4g} s, "
        "{:.1f} GiB</title></circle>\n",
        point.best ? " best" : "", x(point.seconds), y(point.gib), point.best ? 5 : 4,
        escape_html(point.layout), point.seconds, point.gib);
  }
  return svg + "</svg>\n";
}

std::string changes(const SearchPage& page) {
  std::string text = "<table><tr><th class=\"l\">with</th><th>s a step</th><th>less</th></tr>\n";
  for (const SearchPageChange& change : page.changes) {
    text += fmt::format("<tr><td class=\"l\">{}</td><td>{:.4g}</td><td>{:.2f} %</td></tr>\n",
                        escape_html(change.change), change.seconds,
                        100 * (1 - change.seconds / page.rows.front().seconds));
  }
  return text + "</table>\n";
}

}  // namespace

std::string search_page(const SearchPage& page) {
  MEGA_CHECK(!page.rows.empty() && !page.points.empty());
  return fill_template(kSearchPage,
                       {{"title", escape_html(page.title)},
                        {"facts", paragraphs(page.facts)},
                        {"bars", kScheduleCss},
                        {"ranking", ranking(page)},
                        {"part_keys", keys_of(page.parts)},
                        {"breakdown", breakdown(page)},
                        {"schedule_title", escape_html(page.schedule.title)},
                        {"schedule_width", fmt::format("{}", kScheduleWidth)},
                        {"schedule_height", fmt::format("{}", schedule_height(page.schedule))},
                        {"schedule", schedule_rows(page.schedule)},
                        {"class_keys", keys_of(page.classes)},
                        {"memory", memory(page)},
                        {"points", scatter(page)},
                        {"changes", changes(page)},
                        {"refusals", paragraphs(page.refusals)},
                        {"assumptions", paragraphs(page.assumptions)}});
}

void write_search_page(const SearchPage& page, const std::filesystem::path& path) {
  write_file_durable(path, search_page(page));
}

}  // namespace megalith::report
