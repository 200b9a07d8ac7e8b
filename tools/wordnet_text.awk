# SPDX-License-Identifier: Apache-2.0
# WordNet's data.* files to text, one entry a line: "words (part of speech): definition; "examples"".
# Entry lines: offset, file, type, number of words (hex), then word and sense id pairs, ..., "| gloss".
function hex(text,    i, value) {
  value = 0
  for (i = 1; i <= length(text); ++i) value = value * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
  return value
}
BEGIN { kind["n"] = "noun"; kind["v"] = "verb"; kind["a"] = "adjective"; kind["s"] = "adjective"; kind["r"] = "adverb" }
/^[0-9]/ {
  bar = index($0, "| ")
  gloss = substr($0, bar + 2)
  sub(/ +$/, "", gloss)
  words = ""
  count = hex($4)
  for (i = 0; i < count; ++i) {
    word = $(5 + 2 * i)
    sub(/\([a-z]+\)$/, "", word)
    gsub(/_/, " ", word)
    words = words (i > 0 ? ", " : "") word
  }
  print words " (" kind[$3] "): " gloss
}
