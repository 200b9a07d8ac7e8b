// SPDX-License-Identifier: Apache-2.0
#include "text_training/unigram_trainer.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "characters/utf8.h"
#include "text_training/merge_search.h"
#include "text_training/repeated_substrings.h"
#include "text_training/unigram_lattice.h"

namespace megalith::text {
namespace {

constexpr const char* kSpecials[] = {"<pad>", "</s>", "<unk>"};
constexpr int32_t kEnd = 1, kUnknownId = 2;
constexpr size_t kMostPieceCharacters = 16;
constexpr int kRounds = 2;        // of expectation maximisation between two prunings
constexpr double kShrink = 0.75;  // of the pieces are left by one
constexpr double kSlack = 1.1;    // times the aim, before the last choice
constexpr double kRarest = 0.5;   // expected occurrences
constexpr int64_t kParts = 8;     // of the words, whatever the number of threads

using Pieces = std::vector<ScoredPiece>;

// The logarithmic derivative of the gamma function: by its recurrence up to 7, then a series.
double digamma(double x) {
  double result = 0;
  for (; x < 7; ++x) result -= 1 / x;
  x -= 0.5;
  const double y = 1 / (x * x);
  return result + std::log(x) + y * (1.0 / 24 - y * (7.0 / 960 - y * (31.0 / 8064)));
}

class Training {
 public:
  Training(const WordCounts& words, ThreadPool& pool) : words_(words), pool_(pool) {}

  /// One round; pieces that are hardly expected go.
  void maximise(Pieces& pieces) {
    const std::vector<double> expected = sum_over_words(
        pieces, [](UnigramLattice& lattice, std::string_view word, double count,
                   std::vector<double>& sums) { lattice.add_expected(word, count, sums); });
    Pieces kept;
    double sum = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (expected[i] < kRarest) continue;
      kept.push_back({std::move(pieces[i].text), expected[i]});
      sum += expected[i];
    }
    const double log_sum = digamma(sum);
    for (ScoredPiece& piece : kept) piece.score = digamma(piece.score) - log_sum;
    pieces = std::move(kept);
  }

  /// Keeps the pieces without which the likelihood falls most, `size` of them.
  void prune(Pieces& pieces, size_t size) {
    const std::vector<double> counts =
        sum_over_words(pieces, [](UnigramLattice& lattice, std::string_view word, double count,
                                  std::vector<double>& sums) {
          for (const int32_t piece : lattice.best(word))
            if (piece >= 0) sums[static_cast<size_t>(piece)] += count;
        });
    double sum = 0;
    for (const double count : counts) sum += count;
    UnigramLattice lattice(pieces);
    std::vector<std::pair<double, size_t>> losses;
    for (size_t i = 0; i < pieces.size(); ++i)
      if (const auto loss = loss_of(pieces, i, counts, sum, lattice)) losses.emplace_back(*loss, i);
    std::stable_sort(losses.begin(), losses.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    if (losses.size() > size) losses.resize(size);
    std::sort(losses.begin(), losses.end(),
              [](const auto& a, const auto& b) { return a.second < b.second; });
    Pieces kept;
    for (const auto& [loss, i] : losses) kept.push_back(std::move(pieces[i]));
    pieces = std::move(kept);
  }

 private:
  // What the log likelihood of a token loses if the piece goes and its occurrences are cut into
  // other pieces; nothing if it is of no use.
  static std::optional<double> loss_of(const Pieces& pieces, size_t i,
                                       const std::vector<double>& counts, double sum,
                                       UnigramLattice& lattice) {
    const auto& others = lattice.best(pieces[i].text, static_cast<int32_t>(i));
    const bool needed = std::count(others.begin(), others.end(), UnigramLattice::kUnknown) > 0;
    if (needed) return std::numeric_limits<double>::infinity();
    if (counts[i] == 0) return std::nullopt;
    const double extra = counts[i] * static_cast<double>(others.size() - 1);
    double without = 0;
    for (const int32_t other : others)
      without += std::log(counts[static_cast<size_t>(other)] + counts[i]) - std::log(sum + extra);
    return counts[i] / sum * (std::log(counts[i]) - std::log(sum) - without);
  }

  template <typename Add>
  std::vector<double> sum_over_words(const Pieces& pieces, const Add& add) {
    std::vector<std::vector<double>> sums(kParts, std::vector<double>(pieces.size(), 0));
    pool_.for_range(kParts, 1, [&](Range parts, int /*thread*/) {
      UnigramLattice lattice(pieces);
      for (int64_t part = parts.begin; part < parts.end; ++part)
        for (size_t w = static_cast<size_t>(part); w < words_.size(); w += kParts)
          add(lattice, words_.word(w), static_cast<double>(words_.count(w)),
              sums[static_cast<size_t>(part)]);
    });
    for (size_t part = 1; part < kParts; ++part)
      for (size_t i = 0; i < pieces.size(); ++i) sums[0][i] += sums[part][i];
    return sums[0];
  }

  const WordCounts& words_;
  ThreadPool& pool_;
};

std::vector<std::string> kept_characters(const CorpusWords& words, size_t most, Pieces& pieces) {
  auto found = words.characters();
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (found.size() > most) found.resize(most);
  std::vector<std::string> characters;
  for (const auto& [code, count] : found) {
    characters::append_utf8(characters.emplace_back(), code);
    pieces.push_back({characters.back(), static_cast<double>(count)});
  }
  return characters;
}

// The characters, with a score below all others where training dropped them, and the best others.
Pieces chosen(Pieces pieces, const std::vector<std::string>& characters, size_t size) {
  constexpr double kStep = 0.0001;  // so that no two such characters are alike
  std::unordered_map<std::string_view, double> known;
  double lowest = 0;
  for (const ScoredPiece& piece : pieces) {
    known.emplace(piece.text, piece.score);
    lowest = std::min(lowest, piece.score);
  }
  const std::unordered_set<std::string_view> is_character(characters.begin(), characters.end());
  const auto better = [](const ScoredPiece& a, const ScoredPiece& b) {
    return a.score != b.score ? a.score > b.score : a.text < b.text;
  };
  Pieces kept, others;
  for (const std::string& character : characters) {
    const auto place = known.find(character);
    const double added = lowest - kStep * static_cast<double>(kept.size());
    kept.push_back({character, place == known.end() ? added : place->second});
  }
  for (const ScoredPiece& piece : pieces)
    if (!is_character.contains(piece.text)) others.push_back(piece);
  std::sort(others.begin(), others.end(), better);
  if (kept.size() + others.size() > size) others.resize(size - kept.size());
  std::move(others.begin(), others.end(), std::back_inserter(kept));
  std::sort(kept.begin(), kept.end(), better);
  return kept;
}

Tokenizer unigram_tokenizer(const Pieces& pieces) {
  using nlohmann::json;
  json added = json::array(), vocab = json::array();
  for (const char* special : kSpecials) {
    added.push_back({{"id", added.size()}, {"content", special}, {"special", true}});
    vocab.push_back(json::array({special, 0.0}));
  }
  for (const ScoredPiece& piece : pieces) vocab.push_back(json::array({piece.text, piece.score}));
  const auto text = [](const char* name) {
    return json{{"Sequence", {{"id", name}, {"type_id", 0}}}};
  };
  const json end = {{"SpecialToken", {{"id", kSpecials[kEnd]}, {"type_id", 0}}}};
  const json ids = {{"id", kSpecials[kEnd]}, {"ids", {kEnd}}, {"tokens", {kSpecials[kEnd]}}};
  const json marks = {{"type", "Metaspace"},
                      {"replacement", tokenize::kSpaceMark},
                      {"prepend_scheme", "always"},
                      {"split", true}};
  const json file = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "Nmt"}}, {{"type", "NFKC"}}}}}},
      {"pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", {{{"type", "WhitespaceSplit"}}, marks}}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", {text("A"), end}},
        {"pair", {text("A"), end, text("B"), end}},
        {"special_tokens", {{kSpecials[kEnd], ids}}}}},
      {"decoder", marks},
      {"model",
       {{"type", "Unigram"}, {"unk_id", kUnknownId}, {"byte_fallback", false}, {"vocab", vocab}}}};
  return Tokenizer::parse(file.dump(), "the trained tokenizer");
}

}  // namespace

UnigramTrainer::UnigramTrainer(Options options)
    : options_(options),
      words_(tokenize::Normalizer({tokenize::Nmt{}, characters::NormalForm::nfkc}),
             tokenize::PreTokenizer({tokenize::SpaceSplit{}, tokenize::Metaspace{}})) {
  if (options_.vocab_size > kMaxVocabulary)
    throw UserError("a vocabulary of {} is too large (at most {})", options_.vocab_size,
                    kMaxVocabulary);
}

Tokenizer UnigramTrainer::train(ThreadPool& pool) const {
  Pieces pieces;
  const auto characters = kept_characters(words_, options_.most_characters, pieces);
  const size_t specials = std::size(kSpecials);
  if (options_.vocab_size < static_cast<int64_t>(specials + characters.size()))
    throw UserError("a vocabulary of {} is too small: {} special tokens and {} characters need {}",
                    options_.vocab_size, specials, characters.size(), specials + characters.size());
  for (Substring& seed :
       repeated_substrings(words_.counts(), kMostPieceCharacters, options_.most_seeds)) {
    const double gain = static_cast<double>(seed.count) * static_cast<double>(seed.text.size());
    pieces.push_back({std::move(seed.text), gain});
  }
  double sum = 0;
  for (const ScoredPiece& piece : pieces) sum += piece.score;
  for (ScoredPiece& piece : pieces) piece.score = std::log(piece.score / sum);
  const size_t aim = static_cast<size_t>(options_.vocab_size) - specials;
  const size_t enough = static_cast<size_t>(kSlack * static_cast<double>(aim));
  Training training(words_.counts(), pool);
  for (;;) {
    for (int round = 0; round < kRounds; ++round) training.maximise(pieces);
    if (pieces.size() <= enough) break;
    const double shrunk = kShrink * static_cast<double>(pieces.size());
    training.prune(pieces, std::max(enough, static_cast<size_t>(shrunk)));
  }
  pieces = chosen(std::move(pieces), characters, aim);
  if (pieces.size() < aim)
    throw UserError(
        "the corpus has no more substrings worth a piece: {} entries is the largest vocabulary it "
        "gives, {} were asked for; lower the vocabulary size or add text",
        pieces.size() + specials, options_.vocab_size);
  return unigram_tokenizer(pieces);
}

}  // namespace megalith::text
