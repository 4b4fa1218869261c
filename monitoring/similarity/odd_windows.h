/// In which window, at which server and at which transition something was unlike everything before: AutomaDeD's three
/// questions (Laguna 2012, sections 3.3.4 and 3.4), answered by the longest stays in states instead of by their means.
///
/// A server has hundreds of requests at once, so that one that stalls, or a loop that holds all of them up for a
/// second, hardly moves the mean of any transition. What it moves is the time that stays took beyond all that is usual
/// of that transition: the *excess*. Waits for others do not count, for they are what a fault elsewhere does to this
/// server.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/runtime/clock.h"
#include "monitoring/similarity/model.h"
#include "monitoring/similarity/state_use.h"

namespace kintsugi::similarity {

/// A transition in a window.
struct Stays {
  static constexpr size_t kOctaves = 32;

  Transition transition;
  /// Stays in the state before it, by their length: number i has 2^i ns and more, the last one is open.
  std::array<uint64_t, kOctaves> by_octave{};
};

/// What one process did from one report of its totals to the next.
struct ProcessWindow {
  uint64_t process = 0;
  std::string kind;  ///< chunkserver, metaserver and so on: windows of one kind are compared
  TimePoint began{}, ended{};
  std::vector<Stays> stays;
  double memory_bytes = 0;  ///< memory at the end of the window
  double delayed_s = 0;     ///< time in which its event loop could run, but had no processor
};

enum class OddBecause : uint8_t { kTime, kMemory, kProcessor };

struct OddTransition {
  Transition transition;
  double excess_s = 0;
};

struct OddWindow {
  /// Distance from what is usual, in usual spreads; the largest of the three values.
  double score = 0;
  OddBecause because = OddBecause::kTime;
  double time_score = 0;  ///< score of the times alone
  double excess_s = 0;
  std::vector<OddTransition> top;  ///< transitions with the largest excess first; at most kShown
};

/// Not thread-safe.
class OddWindows {
 public:
  static constexpr size_t kShown = 5;
  static constexpr double kOdd = 4;  ///< a window with a higher score does not change what is usual
  static constexpr size_t kReferences = 60;
  /// The excess of a transition is what lies beyond this quantile of its times, and an octave more.
  static constexpr double kUsual = 0.998;
  /// If there are fewer stays, the longest of them defines what is usual.
  static constexpr double kFew = 100;
  /// What a state is held for that hardly anything is known of: 2^27 ns are 134 ms.
  static constexpr size_t kUnknownOctave = 27;
  static constexpr double kMostStays = 1e6;  ///< stays in a transition after which older ones count half
  static constexpr size_t kMostTransitions = 65'536, kMostProcesses = 16'384;

  explicit OddWindows(std::function<StateUse(uint64_t state)> use) : use_(std::move(use)) {}

  /// Judges it against earlier windows of all processes of its kind, and remembers it unless it is odd. In the order
  /// of their ends.
  OddWindow add(const ProcessWindow& window);

 private:
  struct Usual {
    std::array<double, Stays::kOctaves> by_octave{};
    double count = 0;
  };
  struct Values {
    double excess = 0, memory = 0, delayed = 0;
  };
  struct Known {
    std::string kind;
    std::deque<Values> past;  ///< values of windows that were not odd
    Values last;              ///< values of the latest window, odd or not
    TimePoint ended{};
  };

  size_t usual_octave(const std::string& kind, const Transition& transition) const;
  double of_peers(const ProcessWindow& window, double Values::* value) const;
  double score(const ProcessWindow& window, const Known& known, double now, double Values::* value,
               double least, double least_share) const;
  void remember(const ProcessWindow& window);

  std::function<StateUse(uint64_t state)> use_;
  std::map<std::string, std::map<Transition, Usual>> usual_;  ///< key: kind of process
  std::map<uint64_t, Known> known_;
};

}  // namespace kintsugi::similarity
