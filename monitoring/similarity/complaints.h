/// Processes whose messages are damaged, missing, or come twice, by what their receivers count. Nobody waits for long
/// for such a message, so that no wait names it: a reader takes another server, a caller has its answer already. Not
/// thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/proto/sight.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::similarity {

struct ComplaintSettings {
  Duration remembered = std::chrono::seconds(30);  ///< an alarm lasts this long after the last complaint
  uint64_t likely = 3;   ///< number of complaints that are more than one block that rotted on a disk
  size_t most = 16'384;  ///< pairs of processes that are remembered
  Duration forgotten = std::chrono::minutes(10);  ///< a pair that was not reported for so long is forgotten
};

/// One process counts bad messages of another from its own start on.
struct Complaints {
  uint64_t process = 0;    ///< the complaining process
  std::string of_address;  ///< address of the process whose messages were bad
  uint64_t count = 0;
  std::string method;  ///< RPC method of the latest bad message
};

class ComplaintWatch {
 public:
  explicit ComplaintWatch(ComplaintSettings settings = {}) : settings_(settings) {}

  /// Totals as they are now, in any order; one that is left out is as it was.
  void look(const std::vector<Complaints>& totals, TimePoint now);
  /// One MESSAGES verdict for each address that was complained of lately, which stands in `server`: it is for the
  /// caller to name it.
  std::vector<proto::Verdict> alarms(TimePoint now) const;

 private:
  struct Of {
    uint64_t count = 0;  ///< complaints since `first`
    std::string method;
    TimePoint first{}, last{};
  };
  ComplaintSettings settings_;
  struct Total {
    uint64_t count = 0;
    TimePoint seen{};
  };
  std::map<std::pair<uint64_t, std::string>, Total> totals_;
  std::map<std::string, Of> of_;
};

}  // namespace kintsugi::similarity
