/// Positions in a directory that is being listed. The metaserver goes on after a name, the kernel with a number: this knows
/// which name a number stands for.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace kintsugi::mount {

/// One for each open directory. Cookies count entries from 1 on. The last kRecent are exact, whatever comes and goes; of
/// those before, every kSparse-th is: a listing that goes on there is brought forward by counting.
class DirectoryCookies {
 public:
  static constexpr size_t kRecent = 64 << 10;
  static constexpr uint64_t kSparse = 1024;

  /// The cookie of the entry that follows the one with cookie `after` (0: the first one).
  uint64_t add(uint64_t after, std::string_view name);

  /// Where to go on behind an entry: after `name`, once `skip` more entries were passed over.
  struct Position {
    std::string name;
    uint64_t skip = 0;
  };
  Position behind(uint64_t cookie) const;

 private:
  std::map<uint64_t, std::string> names_;
  uint64_t oldest_recent_ = 1;
};

}  // namespace kintsugi::mount
