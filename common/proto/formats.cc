#include "common/proto/formats.h"

#include <fmt/format.h>

namespace kintsugi::proto {

Status check_format(uint32_t format, std::string_view what) {
  if (format > kNewestFormat)
    return {
        Code::kNotSupported,
        fmt::format("{} has format {}, and this program knows formats {} and {}: install the version that "
                    "the cluster was finalized with, or a later one",
                    what, format, kOldestFormat, kNewestFormat)};
  if (format < kOldestFormat)
    return {Code::kNotSupported,
            fmt::format("{} has format {}, and this program knows formats {} and {}: install the version "
                        "before this one first, and finalize the cluster with it",
                        what, format, kOldestFormat, kNewestFormat)};
  return {};
}

Status check_daemon_format(uint32_t said, uint32_t cluster) {
  if (newest_format_of(said) >= cluster) return {};
  return {Code::kNotSupported,
          fmt::format("the cluster was finalized with format {}, and this daemon knows formats up to {}: "
                      "install the metaserver's version on its host",
                      cluster, newest_format_of(said))};
}

Status check_daemon_knows(uint32_t said, uint32_t wanted, std::string_view daemon) {
  if (newest_format_of(said) >= wanted) return {};
  return {Code::kConflict,
          fmt::format("{} knows formats up to {}, and the cluster is to get format {}: upgrade it "
                      "first; nothing has changed",
                      daemon, newest_format_of(said), wanted)};
}

}  // namespace kintsugi::proto
