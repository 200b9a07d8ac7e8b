# SPDX-License-Identifier: Apache-2.0
"""Faults in tokenizers."""
from fault import Fault

TOKENIZER_FAULTS = [
    Fault("a shorter piece taken where a longer one is", "src/tokenize/piece_trie.h",
          "if (units_[node].value >= 0) found = {units_[node].value, at + 1};",
          "if (units_[node].value >= 0 && found.value < 0) found = {units_[node].value, at + 1};",
          "tokenize_test", "PieceTrie.EqualsASearchThroughThePieces:WordPieceModel.TakesTheLongestPieces"),
    Fault("the pieces before an unknown end left behind", "src/tokenize/wordpiece_model.cpp",
          "ids.resize(before);", "", "tokenize_test", "WordPieceModel.TakesTheLongestPieces"),
    Fault("bytes counted for characters in a word's limit", "src/tokenize/wordpiece_model.cpp",
          "count_characters(word) <= options_.most_characters", "word.size() <= options_.most_characters",
          "tokenize_test", "WordPieceModel.LimitCountsCharacters"),
    Fault("accents stripped by today's Unicode", "src/tokenize/bert_normalizer.cpp",
          "if (options_.strip_accents && (classes_.of(point.code) & characters::kNonspacing) != 0)",
          "if (options_.strip_accents && (classes_.of(point.code) & characters::kMark) != 0)",
          "tokenize_test", "Normalizer.Bert"),
    Fault("newer characters decomposed", "src/characters/normal_form.cpp",
          'u"[:age=9.0:]"', 'u"[:age=15.0:]"', "tokenize_test", "Normalizer.OtherSteps"),
    Fault("the second text of a pair given the first one's type", "src/text/tokenizer_json_template.cpp",
          "sep, {Part::text_b, 1, -1}, last};", "sep, {Part::text_b, 0, -1}, last};",
          "text_test", "WordPiece.PairsHaveTypes"),
    Fault("a run of byte tokens given out before it ends", "src/text/decoder.cpp",
          "state.held.push_back(static_cast<char>(*byte)); return;",
          "state.held.push_back(static_cast<char>(*byte)); flush(at, text); return;",
          "text_test", "ByteFallback.StreamedPiecesAreTheDecodedText"),
    Fault("a part of a token taken for a token", "src/text/decoder.cpp",
          "const bool in_parts = decoder_->in_parts_ && at >= decoder_->one_token_from_;",
          "const bool in_parts = false;", "text_test", "Decoder.StepsAfterAFuseSeeOneToken"),
]
