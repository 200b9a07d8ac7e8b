// SPDX-License-Identifier: Apache-2.0
#include "apps/plan/confirm.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <sstream>

#include "apps/plan/trial_folder.h"
#include "apps/plan/trial_process.h"
#include "base/error.h"
#include "base/file.h"
#include "base/integer.h"
#include "base/thread_pool.h"
#include "device/target.h"
#include "search/ranking.h"

namespace megalith::apps {
namespace {

using search::SearchResult;
using search::Trial;

constexpr int kRounds = 3;  // of all candidates in turn, so that all see the same machine
constexpr int kPasses = 3;  // of runs, refit and ranking, until the first ones have all run

/// The words of a run of a recipe.
std::vector<std::string> command_of(const ConfirmOptions& options, int ranks,
                                    const std::string& program, const std::string& recipe) {
  std::vector<std::string> words;
  std::istringstream launcher(options.launcher);
  for (std::string word; launcher >> word;) {
    const size_t at = word.find("{ranks}");
    if (at != std::string::npos) word.replace(at, 7, std::to_string(ranks));
    words.push_back(word);
  }
  for (const std::string& word :
       {program, std::string("bench"), std::string("train"), recipe, std::string("--samples"),
        std::to_string(options.samples), std::string("--json")})
    words.push_back(word);
  return words;
}

/// Threads of all ranks together, as the cluster file was measured with.
int64_t threads_of_run(const clusters::Cluster& cluster, int64_t ranks) {
  const int64_t at_once = cluster.node.at_once > 0 ? cluster.node.at_once : cluster.node.devices;
  return cluster.device.cores * std::min(ranks, at_once);
}

class Confirming {
 public:
  Confirming(const ConfirmOptions& options, const ConfirmInputs& inputs, SearchResult& result)
      : options_(options), inputs_(inputs), result_(result), folder_(folder_of(options, inputs)) {
    confirmation_.folder = folder_.path().string();
    confirmation_.ran_here = is_this_machine(inputs.cluster) || !options.launcher.empty();
  }

  Confirmation run() {
    for (int pass = 0; pass < kPasses; ++pass) {
      const std::vector<Trial> asked = next();
      if (asked.empty()) break;
      if (confirmation_.ran_here) {
        measure(asked);
      } else {
        for (const Trial& trial : asked) write(trial.point);
      }
      const bool has_news = read(asked);
      if (!confirmation_.ran_here && !has_news) break;
      rank();
    }
    // Layouts that ran come first: nothing is the best that only a prediction calls so.
    std::ranges::stable_partition(
        result_.best, [](const auto& candidate) { return candidate.measured.has_value(); });
    if (result_.best.size() > inputs_.search.top) result_.best.resize(inputs_.search.top);
    place_own();
    if (!confirmation_.ran_here) write_commands();
    require_one();
    return std::move(confirmation_);
  }

 private:
  static TrialFolder folder_of(const ConfirmOptions& options, const ConfirmInputs& inputs) {
    return TrialFolder(options.folder.empty() ? inputs.recipe.run.out + ".confirm"
                                              : options.folder);
  }
  void say(const std::string& line) const {
    if (inputs_.search.progress) inputs_.search.progress(line);
  }
  /// Of the first candidates those that were not asked for yet.
  std::vector<Trial> next() {
    std::vector<Trial> asked;
    const auto first = std::min(result_.best.size(), static_cast<size_t>(options_.count));
    for (const search::Candidate& candidate : std::span(result_.best).first(first)) {
      if (search::trial_of(confirmation_.trials, candidate.point) != nullptr) continue;
      const engine::Settings s = search::settings_at(inputs_.settings, candidate.point);
      asked.push_back({.point = candidate.point,
                       .predicted = costs::StepTimes(s, inputs_.cluster).simulated(s).seconds});
      asked_.push_back(candidate);
    }
    return asked;
  }
  void write(const search::LayoutPoint& point) const {
    config::Recipe recipe = search::recipe_at(inputs_.recipe, point);
    const int64_t ranks = int64_t{point.tensor} * point.pipeline * point.data;
    const int64_t cores = inputs_.cluster.device.cores;
    if (cores > 0) {
      // Of a process: all ranks are threads of one, or each has its own.
      const bool are_threads = confirmation_.ran_here && options_.launcher.empty();
      recipe.run.threads = are_threads ? threads_of_run(inputs_.cluster, ranks) : cores;
    }
    folder_.put(recipe, point);
  }
  void measure(const std::vector<Trial>& asked) {
    for (const Trial& trial : asked) {
      folder_.forget(trial.point);
      write(trial.point);
    }
    std::vector<std::string> ended(asked.size());
    for (int round = 1; round <= kRounds; ++round) {
      for (size_t i = 0; i < asked.size(); ++i) {
        if (!ended[i].empty()) continue;
        const search::LayoutPoint& p = asked[i].point;
        say(fmt::format("round {} of {}: {}", round, kRounds, p.text()));
        ended[i] =
            run_process(command_of(options_, p.tensor * p.pipeline * p.data, own_program().string(),
                                   folder_.file(p, ".yaml").string()),
                        folder_.file(p, fmt::format(".{}.jsonl", round)),
                        folder_.file(p, fmt::format(".{}.err", round)));
        if (!ended[i].empty()) ended_[TrialFolder::name_of(p)] = ended[i];
      }
    }
  }
  /// Whether anything is new.
  bool read(const std::vector<Trial>& asked) {
    bool has_news = false;
    for (Trial trial : asked) {
      const auto how = ended_.find(TrialFolder::name_of(trial.point));
      if (how != ended_.end()) {
        trial.failure = folder_.cause(trial.point);
        if (trial.failure.empty()) trial.failure = "ended with " + how->second;
      } else {
        folder_.read(trial);
      }
      if (!trial.seconds && trial.failure.empty() && confirmation_.ran_here)
        trial.failure = "printed no figures";
      has_news = has_news || trial.seconds || !trial.failure.empty();
      confirmation_.trials.push_back(std::move(trial));
    }
    return has_news;
  }
  void rank() {
    confirmation_.refit = search::refit_to(confirmation_.trials, inputs_.settings, inputs_.cluster);
    search::SearchOptions options = inputs_.search;
    options.top += confirmation_.trials.size();
    for (const Trial& trial : confirmation_.trials)
      if (!trial.failure.empty()) options.left_out.push_back(trial.point);
    const clusters::Cluster fitted = search::refitted(inputs_.cluster, confirmation_.refit);
    result_ = search::search_layouts(inputs_.settings, fitted, options);
    const auto predicted_best = result_.best.front().point;
    // A search has one layout of a cut: what ran stays, if another of its cut is taken for faster.
    for (search::Candidate ran : asked_) {
      const Trial* const trial = search::trial_of(confirmation_.trials, ran.point);
      const bool is_there = std::ranges::find(result_.best, ran.point, &search::Candidate::point) !=
                            result_.best.end();
      if (trial == nullptr || !trial->seconds || is_there) continue;
      search::simulate(inputs_.settings, fitted, ran);
      result_.best.push_back(std::move(ran));
    }
    search::rank_by_trials(result_.best, confirmation_.trials);
    if (result_.best.empty() || result_.best.front().point != predicted_best)
      result_.sensitivities.clear();  // they are of another layout
  }
  /// The recipe's own layout among those that ran.
  void place_own() const {
    if (result_.own_place == 0) return;
    if (const Trial* const trial = search::trial_of(confirmation_.trials, result_.own.point))
      result_.own.measured = trial->seconds;
    const auto at = std::ranges::find(result_.best, result_.own.point, &search::Candidate::point);
    if (at != result_.best.end()) result_.own_place = at - result_.best.begin() + 1;
  }
  /// For a scheduler: a script that makes the runs that are missing.
  void write_commands() {
    const clusters::Cluster& cluster = inputs_.cluster;
    const int64_t in_node = std::min(cluster.node.devices, result_.devices);
    // sbatch runs a copy of the script; paths, of a recipe's files too, are those of the place
    // where it was called.
    std::string script = fmt::format(
        "#!/bin/bash\n#SBATCH --nodes={}\n#SBATCH --ntasks={}\n"
        "#SBATCH --ntasks-per-node={}\n"
        "#SBATCH --exclusive\ncd \"${{SLURM_SUBMIT_DIR:-.}}\" || exit 1\n",
        ceil_div(result_.devices, in_node), result_.devices, in_node);
    for (const Trial& trial : confirmation_.trials) {
      if (trial.seconds || !trial.failure.empty()) continue;
      const std::string name = folder_.file(trial.point, "").string();
      confirmation_.commands.push_back(
          fmt::format("srun --mpi=pmix megalith bench train {0}.yaml --samples {1} --json > "
                      "{0}.1.jsonl 2> {0}.1.err",
                      name, options_.samples));
      script += fmt::format("{} || echo \"megalith: ended with exit code $?\" >> {}.1.err\n",
                            confirmation_.commands.back(), name);
    }
    if (!confirmation_.commands.empty())
      write_file_durable(folder_.path() / "confirm.sbatch", script);
  }
  void require_one() const {
    const auto failed = [](const Trial& trial) { return !trial.failure.empty(); };
    const auto& trials = confirmation_.trials;
    if (!trials.empty() && (result_.best.empty() || std::ranges::all_of(trials, failed)))
      throw UserError("none of the {} layouts that were run works: {}: {}; messages are in {}",
                      trials.size(), trials.front().point.text(), trials.front().failure,
                      confirmation_.folder);
  }

  const ConfirmOptions& options_;
  const ConfirmInputs& inputs_;
  SearchResult& result_;
  TrialFolder folder_;
  Confirmation confirmation_;
  std::vector<search::Candidate> asked_;      // of the trials
  std::map<std::string, std::string> ended_;  // otherwise than well, by name
};

}  // namespace

bool is_this_machine(const clusters::Cluster& cluster) {
  return cluster.device.cores > 0 && cluster.node.count == 1 &&
         cluster.device.name == device::cpu_name() &&
         threads_of_run(cluster, cluster.node.devices) <= available_cores();
}

Confirmation confirm(const ConfirmOptions& options, const ConfirmInputs& inputs,
                     SearchResult& result) {
  return Confirming(options, inputs, result).run();
}

}  // namespace megalith::apps
