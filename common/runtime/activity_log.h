/// What a daemon does, as lines of text: which executions of which regions of code begin and end. People read it beside the
/// log, and BlackSheep sets it against the machine's metrics (docs/metrics_detectors.md). There is one for the process, as
/// there is one logger. Spans write it, so no handler knows of it.
///
/// ```
/// 2026-11-22T00:36:37.123456+0000 activity begin pid=412 build=3fa...      nothing is open: the process began
/// 2026-11-22T00:36:37.123456+0000 activity start chunkserver.read_chunk 7f3a12
/// 2026-11-22T00:36:37.234567+0000 activity stop chunkserver.read_chunk 7f3a12 ok
/// 2026-11-22T00:36:38.000001+0000 activity dropped 17                      executions that have no lines
/// ```
/// An execution has both lines or none of them, unless the process or the disk of the log fails meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <initializer_list>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include <boost/unordered/unordered_flat_set.hpp>

#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "common/runtime/site.h"

namespace kintsugi::runtime {

/// Keeps lines until somebody takes them to where they are written. Any thread may call it.
class ActivityLog {
 public:
  /// Lines of one second; the executions above them are counted.
  static constexpr size_t kMostLinesPerSecond = 2000;
  /// Of lines that wait to be taken. Above it executions are dropped; those that are open still tell their end.
  static constexpr size_t kMostBytes = size_t{1} << 20;
  static constexpr size_t kMostSites = 64;

  /// `who` stands in the line of the beginning. `sites`: names of what is logged, kMostSites at most. REQUIRES: `clock`
  /// outlives the log.
  ActivityLog(const Clock& clock, std::string who, std::span<const std::string_view> sites);
  ActivityLog(const ActivityLog&) = delete;
  ActivityLog& operator=(const ActivityLog&) = delete;

  /// Whether executions of the site are logged. For the others nothing else is to be called.
  bool wants(const Site& site) const {
    size_t at = site.hash % kSlots;
    while (wanted_[at] != 0 && wanted_[at] != site.hash)
      at = (at + 1) % kSlots;
    return wanted_[at] != 0;
  }
  /// `span` tells the executions of the process apart.
  void start(const Site& site, uint64_t span);
  /// Nothing happens when the start was not logged.
  void stop(const Site& site, uint64_t span, Code outcome);

  /// The lines since the last call, each with its end.
  std::string take();
  /// The lines that take() gave last could not be written: a reader has to begin anew.
  void lost();

 private:
  static constexpr size_t kSlots = 2 * kMostSites;

  /// A line at `now`: the words, with a space between them.
  void append(Duration now, std::initializer_list<std::string_view> words);
  void tell_dropped(Duration now);

  const Clock& clock_;
  const std::string who_;
  /// Hashes of names, at the first free place from their remainder on; 0: free.
  std::array<uint64_t, kSlots> wanted_{};

  std::mutex mutex_;  ///< guards what follows
  std::string lines_;
  boost::unordered_flat_set<uint64_t> open_;  ///< executions whose start is logged
  int64_t second_ = 0;                        ///< second in which the line before was written
  std::string second_text_;                   ///< the text of that second in a line
  size_t lines_of_second_ = 0;
  uint64_t dropped_ = 0;
};

/// The log of this process; null: there is none.
inline std::atomic<ActivityLog*> process_activity_log{nullptr};

}  // namespace kintsugi::runtime
