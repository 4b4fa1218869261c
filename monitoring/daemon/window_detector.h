/// Servers that take their time: windows in a row, three at least, in which stays took far longer than what is usual
/// of their transitions (similarity/odd_windows.h). What is late by a moment each time holds nobody up for good, so
/// that no wait names it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "monitoring/daemon/detector.h"
#include "monitoring/daemon/process_windows.h"

namespace kintsugi::monitoring {

/// One SLOW verdict for each such server, as long as its windows are odd. Nothing is said of who was named by another
/// detector lately, or waited for somebody who was: its windows are odd for that. Nor where a fifth of the others, of
/// its kind or on its machine, are half as odd about the same time: that is the load, or a disk that they share.
class WindowDetector final : public Detector {
 public:
  /// Longest time between the ends of two windows that count as successive.
  static constexpr Duration kInARow = std::chrono::seconds(20);
  static constexpr Duration kNamedLately = std::chrono::seconds(60);
  /// A server without a window for this long is forgotten.
  static constexpr Duration kForgotten = std::chrono::seconds(60);
  /// When the third one ends all others have told theirs of the time of the first two.
  static constexpr size_t kLeastRow = 3;
  /// The scores of the windows in a row have to make so much together: some that are just odd may be hiccups of a disk.
  static constexpr double kEnough = 4 * similarity::OddWindows::kOdd;
  static constexpr size_t kLeastPeers = 2;
  static constexpr size_t kShare = 5;  ///< one of so many peers is a fifth

  std::string_view name() const override { return "windows"; }
  void hear(const std::vector<proto::Verdict>& found, TimePoint now) override;
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override;

 private:
  struct Server {
    std::string kind, machine;
    /// The score of a window's times; 0: it was odd for something else.
    struct Scored {
      double score = 0;
      TimePoint ended{};
    };
    Scored last, before;     ///< the latest window, and the one before
    TimePoint began{};       ///< start of the current run of odd windows
    size_t odd_windows = 0;  ///< length of that run in windows
    double total_score = 0;  ///< sum of their scores
    bool stands = false;
    proto::Verdict verdict;
  };
  void look(const JudgedWindow& window, const model::Snapshot& snapshot);
  /// Hardly any others are as odd about the time of its last two windows.
  bool is_alone(uint64_t process) const;

  ProcessWindows windows_{ProcessWindows::Methods::kOurs};
  std::map<uint64_t, Server> servers_;      ///< key: process id
  std::map<uint64_t, TimePoint> named_at_;  ///< key: process id; 0: who has none, such as a machine
};

}  // namespace kintsugi::monitoring
