/// Names that were given while calls were under way, whose answers say nothing of those names.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <string_view>

namespace kintsugi::client {

/// The kernel serialises changes in a directory, but moves on when the caller is killed. So the answer to an old call
/// may arrive after later calls have given names there. Single-threaded.
class NamesMeanwhile {
 public:
  static constexpr size_t kMost = 10'000;  ///< names that are remembered

  /// A call that is under way.
  class Call {
   public:
    explicit Call(NamesMeanwhile& names) : names_(names), since_(names.last_) {
      names_.calls_.insert(since_);
    }
    ~Call() {
      names_.calls_.erase(names_.calls_.find(since_));
      names_.forget();
    }
    Call(const Call&) = delete;

    /// Returns true if this name may have been given in the directory since the call began; any name, if it is empty.
    bool may_have_given(uint64_t directory, std::string_view name = {}) const;

   private:
    NamesMeanwhile& names_;
    const uint64_t since_;
  };
  /// Notes that a call which gives this name in the directory is about to begin.
  void give(uint64_t directory, std::string_view name);

 private:
  struct Given {
    uint64_t number = 0, directory = 0;
    std::string name;
  };
  /// Forgets what was given before the oldest of the calls began.
  void forget();

  uint64_t last_ = 0;  ///< number of the last name that was given
  /// Names up to this number are not remembered, though there may be calls from before they were given.
  uint64_t forgotten_ = 0;
  std::multiset<uint64_t> calls_;  ///< the value of `last_` when each call under way began
  std::deque<Given> given_;        ///< ordered by their numbers
};

}  // namespace kintsugi::client
