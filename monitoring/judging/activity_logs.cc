#include "monitoring/judging/activity_logs.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

namespace kintsugi::judging {

Result<blacksheep::States> states_of(const std::string& directory, const std::string& source) {
  std::string name = source;
  std::ranges::replace(name, '/', '_');
  return blacksheep::read_states((std::filesystem::path(directory) / (name + ".activity.log")).string(),
                                 kLogPeriod);
}

Status check_logs(const Recordings& recordings) {
  for (const std::string& directory : {recordings.logs, recordings.healthy_logs}) {
    std::error_code error;
    if (directory.empty())
      return Status(Code::kInvalidArgument,
                    "this method reads activity logs: name their directory with --logs (a daemon writes "
                    "NAME.activity.log beside its log)");
    if (!std::filesystem::is_directory(directory, error))
      return Status(Code::kNotFound, fmt::format("{} is no directory of activity logs", directory));
  }
  return {};
}

}  // namespace kintsugi::judging
