// SPDX-License-Identifier: Apache-2.0
// Stands between a test and the C library's calls on files: records what happens below one folder
// (crash_prefixes_test builds every disk that a power cut could leave from it), and makes chosen
// calls fail (save_faults_test). A shared library that is linked before the C library, so its
// open(), write(), rename() and so on are the ones that every other library of the process meets.
// Preloaded into another program it reads MEGA_FAULTS=FOLDER|CALL|ERROR|N (see
// system/faults_test); ERROR is a number, exit or hang, or "+300": the call succeeds, 300 ms late
// (system/accounts_test), or "until:PATH": it succeeds as soon as PATH exists; N is the call's
// number, "7+" the seventh and every later one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace megalith::faults {

/// `open` makes files, `look` opens what is there, `close` is that of files open for writing,
/// `rename` gives a name, a nameless file's first one too.
enum class Call {
  open,
  look,
  read,
  write,
  truncate,
  sync,
  close,
  rename,
  mkdir,
  unlink,
  thread,  // of the process, wherever
  note
};

/// One successful call below the folder. Paths are relative to it; "" is the folder itself.
struct Operation {
  Call call;
  std::string path;
  std::string to = {};    // rename: the new name
  int64_t offset = 0;     // write, truncate
  std::string data = {};  // write: the bytes; note: the caller's text
  bool created = false;   // open: the file is new
  bool exchange = false;  // rename: the two names changed places
  bool nameless = false;  // open, rename: of a file that has no name; `path` stands for it
};

/// Starts recording calls below `folder` (absolute, without a slash at its end).
void record(const std::string& folder);
/// Stops, and gives what was recorded, in order.
std::vector<Operation> stop();
/// Puts a remark of the test between the recorded calls.
void note(const std::string& text);

/// What the n-th call does instead.
struct Injection {
  Call call;
  int64_t nth = 1;  // from 1, counted from inject() on
  /// errno; 0: write half of the bytes, an odd number, and say so (write only); one of the below.
  int error = 0;
  int late_ms = 0;         // not 0: no failure, the call takes so much longer; others go on
  bool and_later = false;  // as the n-th, so every later one
  std::string until = {};  // a path: no failure, the call waits until it exists; others go on
  static constexpr int kExit = -1;  // the process ends at once with status 7
  static constexpr int kHang = -2;  // never returns; other calls go on
};
/// Counts calls below `folder`, and makes one of them fail.
void inject(const std::string& folder, const Injection& injection);
/// Below the folder, renames know no flags, as on some network file systems.
void plain_renames(bool on);
/// Below the folder there are no files without a name, as on some network file systems.
void no_nameless_files(bool on);
/// Stops; whether the n-th call was reached.
bool injected();

}  // namespace megalith::faults
