// SPDX-License-Identifier: Apache-2.0
// Samples are grouped by prompt, so that one sees what became of the same beginning as the model
// learned. Long lists are thinned evenly, first and last kept, and say so.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/html.h"
#include "report/quantity.h"
#include "report/sections.h"

namespace megalith::report {

namespace {

constexpr size_t kMaxPrompts = 16;
constexpr size_t kMaxPerPrompt = 24;
constexpr size_t kMaxTextBytes = 4000;

using Group = std::vector<const TextSample*>;

/// In the order in which the prompts first came.
std::vector<Group> by_prompt(const std::vector<TextSample>& samples) {
  std::vector<Group> groups;
  std::map<std::string_view, size_t> index;
  for (const TextSample& sample : samples) {
    const auto [place, fresh] = index.emplace(sample.prompt, groups.size());
    if (fresh) groups.emplace_back();
    groups[place->second].push_back(&sample);
  }
  return groups;
}

/// At most `count` (>= 2) of them, evenly, with the first and the last.
Group thin(const Group& group, size_t count) {
  if (group.size() <= count) return group;
  Group kept;
  for (size_t i = 0; i < count; ++i) kept.push_back(group[i * (group.size() - 1) / (count - 1)]);
  return kept;
}

/// The text, cut between two characters if it is very long.
std::string shown(std::string_view text) {
  if (text.size() <= kMaxTextBytes) return escape_html(text);
  size_t end = kMaxTextBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return escape_html(text.substr(0, end)) + "&hellip;";
}

}  // namespace

std::string samples_html(const RunRecord& record) {
  const std::vector<Group> groups = by_prompt(record.samples.newest);
  std::string out;
  if (record.samples.earlier > 0) {
    out += fmt::format("<p class=\"hint\">The earliest {} are left out: a page takes {}.</p>\n",
                       grouped(record.samples.earlier), human_bytes(kMostSampleBytes));
  }
  for (size_t i = 0; i < std::min(groups.size(), kMaxPrompts); ++i) {
    const Group rows = thin(groups[i], kMaxPerPrompt);
    const std::string& prompt = rows.front()->prompt;
    out += fmt::format("<section class=\"samples\"><h3>{}</h3>\n<ol>\n",
                       prompt.empty() ? "<em>no prompt</em>" : "<q>" + shown(prompt) + "</q>");
    for (const TextSample* sample : rows) {
      out += fmt::format("<li><span class=\"step\">step {}</span><p>{}</p></li>\n",
                         grouped(sample->step), shown(sample->text));
    }
    out += "</ol>\n";
    if (rows.size() < groups[i].size()) {
      out +=
          fmt::format("<p class=\"hint\">{} of {} samples.</p>\n", rows.size(), groups[i].size());
    }
    out += "</section>\n";
  }
  if (groups.size() > kMaxPrompts) {
    out += fmt::format("<p class=\"hint\">{} of {} prompts.</p>\n", kMaxPrompts, groups.size());
  }
  return out;
}

}  // namespace megalith::report
