/// Servers that take their time: two windows in a row in which stays took far longer than what is usual of their transitions
/// (similarity/odd_windows.h). What is late by a moment each time holds nobody up for good, so that no wait names it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "monitoring/daemon/detector.h"
#include "monitoring/daemon/process_windows.h"

namespace kintsugi::monitoring {

/// One SLOW verdict for each such server, as long as its windows are odd. Nothing is said of who was named by another detector lately, or waited for
/// somebody who was: its windows are odd for that. Nor where a fifth of the others of its kind are half as odd at the same time: that is the load, or a disk
/// that several of them share.
class WindowDetector final : public Detector {
 public:
  static constexpr Duration kInARow =
      std::chrono::seconds(20);  ///< between the ends of windows that follow one another
  static constexpr Duration kNamedLately = std::chrono::seconds(60);
  static constexpr Duration kForgotten = std::chrono::seconds(60);  ///< a server without a window for so long
  static constexpr size_t kLeastPeers = 2;
  static constexpr size_t kShare = 5;  ///< one of so many others is a fifth

  std::string_view name() const override { return "windows"; }
  void hear(const std::vector<proto::Verdict>& found, TimePoint now) override;
  std::vector<proto::Verdict> examine(const model::Snapshot& snapshot) override;

 private:
  struct Server {
    std::string name, kind;
    bool odd = false;            ///< its last window was, for its times
    double score = 0;            ///< of that window; 0: for something else than its times
    TimePoint began{}, ended{};  ///< of the windows in a row that were, and of the last one
    bool stands = false;
    proto::Verdict verdict;
  };
  void look(const JudgedWindow& window, const model::Snapshot& snapshot);
  /// Hardly any others of its kind are as odd at the same time.
  bool is_alone(uint64_t process) const;

  ProcessWindows windows_{ProcessWindows::Methods::kOurs};
  std::map<uint64_t, Server> servers_;         ///< by process
  std::map<std::string, TimePoint> named_at_;  ///< by server
};

}  // namespace kintsugi::monitoring
