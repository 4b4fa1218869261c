/// What one method found, as report.h gives it, and the methods whose findings are made in rooms of their own.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/base/status.h"
#include "monitoring/judging/report.h"

namespace kintsugi::judging {

struct Findings {
  bool odd = false;
  std::vector<std::string> lines;
  nlohmann::ordered_json found = nlohmann::ordered_json::array();

  void not_judged(const std::string& source, const std::string& why) {
    lines.push_back(fmt::format("{}: not judged: {}", source, why));
    found.push_back({{"server", source}, {"not_judged", why}});
  }
};

inline std::string time_of(int64_t t_ns) {
  return fmt::format("{:%H:%M:%S}", fmt::localtime(static_cast<std::time_t>(t_ns / 1'000'000'000)));
}

/// RAMS: processes whose work in the system does not follow from their own any more.
Result<Findings> by_rams(const Recordings& recordings);
/// RAMS as the text has it: two p-values of a process, and no healthy time.
Result<Findings> by_rams_text(const Recordings& recordings);
/// BlackSheep: processes whose log does not explain what the machine does, or the reverse.
/// kInvalidArgument: no logs were given; kNotFound, kIoError: of a directory of logs.
Result<Findings> by_blacksheep(const Recordings& recordings);
/// BlackSheep as the text has it: processes whose log and machine tell of different changes. Errors: the same.
Result<Findings> by_blacksheep_text(const Recordings& recordings);

}  // namespace kintsugi::judging
