/// Runs pieces of work in processes of their own, so that one that crashes, hangs or leaks is a finding like any other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace kintsugi::simulation {

class Children {
 public:
  /// What a child's work says to whoever waits for it.
  using Say = std::function<void(const std::string&)>;
  struct Work {
    uint64_t number = 0;
    std::function<void(const Say&)> run;  ///< in the child, which ends after it
  };
  struct Ended {
    uint64_t number = 0;
    std::string said;
    std::string words;    ///< the end of its standard error
    std::string problem;  ///< how it came to a bad end; empty: it did not
    bool slow = false;    ///< it was ended after the limit
  };

  /// `jobs` at a time; each gets `seconds` of real time.
  Children(size_t jobs, unsigned seconds) : jobs_(jobs), seconds_(seconds) {}

  /// Runs what `next` gives until it gives nothing more; `ended` is told of each in the order in which they end.
  void run(const std::function<std::optional<Work>()>& next, const std::function<void(Ended)>& ended);

 private:
  size_t jobs_;
  unsigned seconds_;
};

}  // namespace kintsugi::simulation
