/// Servers that answer most requests of a kind with an error, while others that serve the same do not. Since an error
/// comes at once, such a server looks idle and fast, and is asked all the more. Not thread-safe.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "monitoring/gray/party.h"
#include "monitoring/gray/recent_growth.h"

namespace kintsugi::gray {

struct ErrorSettings {
  Duration over = std::chrono::seconds(30);  ///< answers of so much time count
  uint64_t answers = 10;                     ///< answers below which nothing is said
  double raise = 0.5, clear = 0.2;           ///< shares of the answers
  size_t peers = 2;  ///< peers that must have given `peer_answers` answers of the kind,
  uint64_t peer_answers = 5;
  double of_peers = 0.1;  ///< half of the peers have no more than this part of its share of errors
  /// Good answers of the kind that end an alarm: within `over`, or since the last error. A server that errs every other
  /// time gives so many in a row once in 32 times.
  uint64_t good = 5;
  /// When nobody has asked for the kind for so long, since others avoid it, the alarm ends and they try again.
  Duration unasked = std::chrono::seconds(45);
};

/// What a process has answered to requests of one kind since it started.
struct Answers {
  Party of;
  std::string role;              ///< the kind of request, as "serve.ReadChunk"
  uint64_t all = 0, faulty = 0;  ///< faulty: with an error that is this process's own fault
  TimePoint at{};                ///< time of the report
};

class ErrorWatch {
 public:
  explicit ErrorWatch(ErrorSettings settings = {}) : settings_(settings) {}

  /// The answers of all processes that have run for a while and do not end, once a second. What a report leaves out
  /// stays as it was told last; processes that are not among `running` are forgotten.
  void look(const std::vector<Answers>& answers, const std::set<uint64_t>& running, TimePoint now);
  /// One ERRORS verdict for each process, with its worst kind of request as the region.
  std::vector<proto::Verdict> alarms(TimePoint now) const;

 private:
  struct Known {
    Answers last;
    RecentGrowth all, faulty;
    uint64_t answers = 0, faulty_answers = 0;  ///< counts within `over`
    double share = 0;
    uint64_t good_before = 0;  ///< good answers until the last error was told
    TimePoint asked{};         ///< the last time that answers were told
    bool errs = false;
    TimePoint since{};
    double erred_share = 0;  ///< share of errors among `erred_answers`, when there was enough to judge by
    uint64_t erred_answers = 0;

    uint64_t good() const { return last.all - last.faulty; }
  };
  void judge(Known& one, TimePoint now) const;
  /// Half of those that serve the same err, too, or too few serve it to know.
  bool is_everybodys(const Known& one) const;

  ErrorSettings settings_;
  std::map<std::pair<uint64_t, std::string>, Known> known_;  ///< key: process, role
};

}  // namespace kintsugi::gray
