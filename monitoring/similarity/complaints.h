/// Whose messages are damaged, missing, or come twice, by what their receivers count. Nobody waits for long for such a message, so that no wait
/// names it: a reader takes another server, a caller has its answer already. Not thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/proto/sight.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::similarity {

struct ComplaintSettings {
  Duration remembered = std::chrono::seconds(30);  ///< after the last complaint
  uint64_t likely = 3;   ///< so many of them are hardly one block of a disk that has rotted
  size_t most = 16'384;  ///< pairs of processes that are known
  Duration forgotten = std::chrono::minutes(10);  ///< a pair that was not told for so long
};

/// One process counts bad messages of another from its own start on.
struct Complaints {
  uint64_t process = 0;    ///< of who complains
  std::string of_address;  ///< whose messages they were
  uint64_t count = 0;
  std::string method;  ///< of the last of them
};

class ComplaintWatch {
 public:
  explicit ComplaintWatch(ComplaintSettings settings = {}) : settings_(settings) {}

  /// Totals as they are now, in any order; one that is left out is as it was.
  void look(const std::vector<Complaints>& totals, TimePoint now);
  /// One MESSAGES verdict for each address that was complained of lately, which stands in `server`: it is for the caller to name it.
  std::vector<proto::Verdict> alarms(TimePoint now) const;

 private:
  struct Of {
    uint64_t count = 0;  ///< since the first of them
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
