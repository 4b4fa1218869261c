/// What goes on, but slower than it did: who makes others wait longer than usual, and does not wait longer for somebody else himself.
///
/// Processes report how long they waited in all, by state and target. The growth between two such reports is a window. What a wait took
/// on average there, beyond the usual of earlier windows, is blamed on its target; a process hands on what it waited too long itself.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "monitoring/model/snapshot.h"

namespace kintsugi::progress {

class Slowdowns {
 public:
  static constexpr size_t kReference = 60;      ///< windows
  static constexpr size_t kLeastReference = 6;  ///< windows, before anything is usual
  static constexpr uint64_t kLeastWaits = 5;    ///< in a window, to count
  static constexpr size_t kMaxWaits = 65'536;
  static constexpr double kFactor = 3;         ///< of the usual, that is slow
  static constexpr double kPeersFactor = 2;    ///< when most of its kind are that slow, it is the load
  static constexpr double kLeastBlame = 0.05;  ///< seconds waited too long in each second
  static constexpr int kWindows = 3;           ///< in a row

  /// Takes in what is new, and returns SLOW verdicts for what has been slow for kWindows windows.
  std::vector<proto::Verdict> update(const model::Snapshot& snapshot);

 private:
  struct Total {
    uint64_t count = 0, ns = 0;
  };
  struct Usual {
    std::deque<double> means;  ///< ns a wait, of earlier windows
    uint64_t count = 0;        ///< of the last window
    double mean = 0, usual = 0;
    double excess = 0;  ///< seconds waited too long in a second; 0: nothing is known
    bool fresh = false;
  };
  struct Process {
    std::map<std::pair<uint32_t, std::string>, Total> totals;  ///< by state and target
    std::map<std::pair<uint32_t, std::string>, Usual> waits;
    TimePoint since{};
    bool known = false;
  };
  struct Blame {
    double in = 0, out = 0, factor = 1;
    double worst = 0;  ///< of one kind of wait
    TimePoint told{};  ///< when the newest window came that counts here
    uint64_t waiter = 0;
    uint32_t state = 0;
    size_t waiters = 0;
  };
  using Node = std::pair<uint64_t, std::string>;  ///< a process; with a name: its device

  bool take_window(const model::ProcessView& view, TimePoint now);
  std::map<Node, Blame> blames(const model::Snapshot& snapshot) const;

  std::map<uint64_t, Process> processes_;
  std::map<Node, int> slow_for_;      ///< windows
  std::map<Node, TimePoint> judged_;  ///< the newest window that was counted
  std::vector<proto::Verdict> standing_;
};

}  // namespace kintsugi::progress
